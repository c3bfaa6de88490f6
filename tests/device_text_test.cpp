#include "device_text.h"

#include <gtest/gtest.h>

namespace flashbench {
namespace {

TEST(DeviceText, OneLine) {
  DeviceInfo cpu;
  cpu.name = "A CPU";
  cpu.sm_count = 1;
  cpu.memory_bytes = std::int64_t{16} << 30;
  EXPECT_EQ(describe(cpu), "A CPU, 1 thread, 16.0 GiB");
  cpu.sm_count = 2;
  cpu.runtime = "OpenBLAS 0.3";
  EXPECT_EQ(describe(cpu), "A CPU, 2 threads, 16.0 GiB, OpenBLAS 0.3");
  DeviceInfo gpu;
  gpu.kind = DeviceKind::cuda;
  gpu.name = "A GPU";
  gpu.compute_capability = 90;
  gpu.sm_count = 132;
  gpu.memory_bytes = std::int64_t{140} << 30;
  gpu.driver = "13.0";
  gpu.runtime = "13.0";
  EXPECT_EQ(describe(gpu), "A GPU, sm_90, 132 multiprocessors, 140 GiB, driver 13.0, CUDA 13.0");
}

TEST(DeviceText, AStateInWords) {
  DeviceState state;
  EXPECT_EQ(describe(state), "unknown");
  state.power_w = 312.4;
  state.temperature_c = 54;
  EXPECT_EQ(describe(state), "312 W, 54 °C");
  state.power_limit_w = 700;
  state.sm_clock_hz = 1965e6;
  state.throttle_reasons = {"power_cap", "thermal"};
  EXPECT_EQ(describe(state),
            "312 of 700 W, 54 °C, SM at 1965 MHz, held down by power_cap, thermal");
  state.throttle_reasons->clear();
  EXPECT_EQ(describe(state), "312 of 700 W, 54 °C, SM at 1965 MHz, nothing holds the clock down");
}

}  // namespace
}  // namespace flashbench
