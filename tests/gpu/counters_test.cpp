#include "counters.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "arena.h"
#include "kernels/harness/cuda_device.h"
#include "kernels/harness/cupti_counters.h"
#include "kernels/harness/reference_kernels.h"

namespace flashbench {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// The counters of a real device on work whose bytes and operations are known.
class GpuCountersTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!counters_.available()) GTEST_SKIP() << "no counters: " << counters_.reason();
  }

  PlanCounters count(const Enqueue& work, Dtype dtype = Dtype::bf16) {
    Plan plan;
    plan.steps.push_back({"work", work});
    work(device_.stream());
    const auto counted = counters_.measure(plan, dtype);
    EXPECT_TRUE(counted) << counters_.reason();
    return counted.value_or(PlanCounters{});
  }

  CudaDevice device_;
  cudaStream_t stream_ = static_cast<cudaStream_t>(device_.stream());
  Counters counters_{device_, [](Device& device) { return make_cupti_profiler(device); }};
  Arena arena_{device_};
};

TEST_F(GpuCountersTest, ReadsAreCountedToThousandths) {
  const double bytes = 64 * kMiB;
  const Buffer data = arena_.allocate(64 * kMiB);
  const Buffer sink = arena_.allocate(4);
  device_.fill_bytes(data.data(), 0x5b, data.bytes());
  const CounterFigures whole =
      count([&](Stream) {
        launch_reference_read(data.data(), 64 * kMiB, static_cast<std::uint32_t*>(sink.data()),
                              stream_);
      }).whole;
  EXPECT_NEAR(whole.read_bytes, bytes, 0.003 * bytes);
  EXPECT_LT(whole.write_bytes, 0.003 * bytes);
  ASSERT_TRUE(whole.l2_bytes);
  EXPECT_GE(*whole.l2_bytes, bytes);
  EXPECT_EQ(whole.tensor_bf16_ops, 0);
  EXPECT_EQ(whole.tensor_active, 0);
}

TEST_F(GpuCountersTest, WritesThatLingerInTheCacheAreCounted) {
  // Half the cache: without the eviction most of it would not be seen.
  const std::int64_t size = device_.info().l2_bytes / 2 / (64 << 10) * (64 << 10);
  const Buffer data = arena_.allocate(size);
  const CounterFigures whole =
      count([&](Stream) {
        launch_reference_write(data.data(), static_cast<std::size_t>(size), stream_);
      }).whole;
  EXPECT_NEAR(whole.write_bytes, static_cast<double>(size), 0.01 * static_cast<double>(size));
  EXPECT_LT(whole.read_bytes, 0.01 * static_cast<double>(size));
  EXPECT_LT(whole.write_uncertainty_bytes, 0.01 * static_cast<double>(size));
}

TEST_F(GpuCountersTest, ADirtyCacheIsNotCharged) {
  const std::int64_t size = device_.info().l2_bytes / 4 / (64 << 10) * (64 << 10);
  const Buffer dirty = arena_.allocate(size);
  device_.fill_bytes(dirty.data(), 1, size);
  const CounterFigures whole = count([&](Stream) { device_.launch_nothing(); }).whole;
  EXPECT_LT(whole.read_bytes, 1 << 20);
  EXPECT_LT(whole.write_bytes, 1 << 20);
}

TEST_F(GpuCountersTest, StepsAreToldApart) {
  const std::int64_t size = 128 * kMiB;
  const Buffer a = arena_.allocate(size);
  const Buffer b = arena_.allocate(size);
  const Buffer sink = arena_.allocate(4);
  device_.fill_bytes(a.data(), 0x5b, size);
  Plan plan;
  plan.steps.push_back({"read", [&](Stream) {
                          launch_reference_read(a.data(), static_cast<std::size_t>(size),
                                                static_cast<std::uint32_t*>(sink.data()), stream_);
                        }});
  plan.steps.push_back({"write", [&](Stream) {
                          launch_reference_write(b.data(), static_cast<std::size_t>(size), stream_);
                        }});
  plan.enqueue(device_.stream());
  const auto counted = counters_.measure(plan, Dtype::bf16);
  ASSERT_TRUE(counted) << counters_.reason();
  ASSERT_EQ(counted->steps.size(), 2U);
  const auto bytes = static_cast<double>(size);
  EXPECT_NEAR(counted->steps[0].read_bytes, bytes, 0.003 * bytes);
  EXPECT_LT(counted->steps[0].write_bytes, 0.003 * bytes);
  EXPECT_LT(counted->steps[1].read_bytes, 0.003 * bytes);
  EXPECT_NEAR(counted->steps[1].write_bytes, bytes, 0.003 * bytes);
  EXPECT_NEAR(counted->whole.read_bytes, bytes, 0.003 * bytes);
  EXPECT_NEAR(counted->whole.write_bytes, bytes, 0.003 * bytes);
}

TEST_F(GpuCountersTest, OperationsAreCountedExactly) {
  const Buffer sink = arena_.allocate(4);
  auto* word = static_cast<std::uint32_t*>(sink.data());
  const int sms = device_.info().sm_count;
  const double exps = launch_reference_exp2(sms, word, stream_);
  const CounterFigures exponentials =
      count([&](Stream) { launch_reference_exp2(sms, word, stream_); }).whole;
  ASSERT_TRUE(exponentials.special_ops);
  EXPECT_EQ(*exponentials.special_ops, exps);

  const double fmas = launch_reference_fma(sms, word, stream_);
  const CounterFigures products =
      count([&](Stream) { launch_reference_fma(sms, word, stream_); }, Dtype::f32).whole;
  ASSERT_TRUE(products.f32_ops);
  EXPECT_NEAR(*products.f32_ops, 2 * fmas, 0.001 * fmas);
  EXPECT_EQ(products.tensor_tf32_ops, 0);
}

}  // namespace
}  // namespace flashbench
