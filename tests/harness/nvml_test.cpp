#include "kernels/harness/nvml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flashbench {
namespace {

constexpr const char* kCard = "GPU-00000000-0000-0000-0000-000000000007";

TEST(NvmlTest, ReadsTheCardOfTheUuid) {
  const Nvml nvml(kCard, FLASHBENCH_FAKE_NVML);
  const auto state = nvml.state();
  ASSERT_TRUE(state);
  EXPECT_EQ(state->power_w, 312.5);
  EXPECT_EQ(state->power_limit_w, std::nullopt) << "one reading less is no error";
  EXPECT_EQ(state->temperature_c, 54);
  EXPECT_EQ(state->sm_clock_hz, 1965e6);
  ASSERT_TRUE(state->throttle_reasons);
  EXPECT_THAT(*state->throttle_reasons, testing::ElementsAre("power_cap", "thermal"));
}

TEST(NvmlTest, AnotherCardIsNotThisOne) {
  EXPECT_EQ(Nvml("GPU-00000000-0000-0000-0000-000000000008", FLASHBENCH_FAKE_NVML).state(),
            std::nullopt);
}

TEST(NvmlTest, NoLibraryNoReadings) {
  EXPECT_EQ(Nvml(kCard, "/nowhere/libnvidia-ml.so.1").state(), std::nullopt);
}

}  // namespace
}  // namespace flashbench
