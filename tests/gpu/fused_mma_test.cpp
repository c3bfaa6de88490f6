#include <string>

#include "device_fixture.h"
#include "error.h"
#include "kernels/catalogue.h"

namespace flashbench {
namespace {

constexpr Dtype kDtypes[] = {Dtype::f16, Dtype::bf16};
constexpr Mask kMasks[] = {Mask::none, Mask::causal};

/// The backend's device with less shared memory, as other GPUs have: kernels are then chosen as for
/// those.
class SmallerDevice final : public Device {
 public:
  SmallerDevice(Device& device, std::int64_t shared_memory)
      : device_(device), info_(device.info()) {
    info_.shared_memory_per_block = shared_memory;
  }
  const DeviceInfo& info() const override { return info_; }
  void* allocate(std::int64_t bytes) override { return device_.allocate(bytes); }
  void deallocate(void* data) noexcept override { device_.deallocate(data); }
  std::int64_t free_bytes() const override { return device_.free_bytes(); }
  void download(void* host, const void* from, std::int64_t bytes) override {
    device_.download(host, from, bytes);
  }
  void upload(void* to, const void* host, std::int64_t bytes) override {
    device_.upload(to, host, bytes);
  }
  void copy(void* to, const void* from, std::int64_t bytes) override {
    device_.copy(to, from, bytes);
  }
  void fill_bytes(void* data, std::uint8_t value, std::int64_t bytes) override {
    device_.fill_bytes(data, value, bytes);
  }
  Stream stream() const override { return device_.stream(); }
  void synchronize() override { device_.synchronize(); }
  Sample time(const Enqueue& enqueue, CacheState cache) override {
    return device_.time(enqueue, cache);
  }
  void flush_cache() override { device_.flush_cache(); }
  void launch_nothing() override { device_.launch_nothing(); }

 private:
  Device& device_;
  DeviceInfo info_;
};

class FusedMmaTest : public KernelTest {
 protected:
  std::unique_ptr<Implementation> mma_ = make_fused_mma();
};

TEST_F(FusedMmaTest, IsExactForEveryHeadDim) {
  for (const Dtype dtype : kDtypes) {
    for (std::int64_t d = 8; d <= 256; d += 8) {
      expect_exact(*mma_, problem(1, 2, 1, 200 + d % 60, 170 + d % 90, d, dtype, Mask::causal));
    }
  }
}

TEST_F(FusedMmaTest, IsExactAtTheEdgesOfTiles) {
  for (const Dtype dtype : kDtypes) {
    for (const Mask mask : kMasks) {
      for (const std::int64_t n :
           {1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 255, 257, 400}) {
        for (const std::int64_t d : {64, 96, 128, 192, 256}) {
          expect_exact(*mma_, problem(1, 2, 2, n, n, d, dtype, mask));
          expect_exact(*mma_, problem(1, 2, 1, n, n * 7 % 300 + 1, d, dtype, mask));
        }
      }
    }
  }
}

TEST_F(FusedMmaTest, IsExactForGroupedQueriesAndManyHeads) {
  for (const Dtype dtype : kDtypes) {
    expect_exact(*mma_, problem(2, 12, 3, 170, 190, 64, dtype, Mask::causal));
    expect_exact(*mma_, problem(2, 8, 1, 170, 190, 128, dtype, Mask::none));
    expect_exact(*mma_, problem(300, 250, 50, 2, 3, 8, dtype, Mask::causal));  // 75 000 heads
  }
}

// Causal heads run in groups whose K and V fit the cache: the last group is smaller.
TEST_F(FusedMmaTest, IsExactWhereHeadsRunInGroups) {
  expect_exact(*mma_, problem(1, 7, 7, 16384, 16384, 128, Dtype::bf16, Mask::causal));
  expect_exact(*mma_, problem(1, 1, 1, 300, 200'001, 64, Dtype::f16, Mask::causal));
}

TEST_F(FusedMmaTest, IsExactInAlignedLayoutsAndRefusesOthers) {
  for (const Dtype dtype : kDtypes) {
    for (const Layout layout : {Layout::heads_first, Layout::padded}) {
      expect_exact(*mma_, problem(2, 4, 2, 150, 190, 72, dtype, Mask::causal), {.layout = layout});
    }
  }
  const Problem p = problem(1, 1, 1, 4, 4, 64, Dtype::bf16, Mask::none);
  TestTensor tensor(Layout::unaligned, p.dtype, 1, 4, 1, 64);
  const Operands operands{tensor.view(), tensor.view(), tensor.view(), tensor.view(), nullptr};
  EXPECT_THROW(mma_->plan(p, operands, nullptr, *backend().device), Error);
}

TEST_F(FusedMmaTest, IsExactOnEveryDistribution) {
  for (const Dtype dtype : kDtypes) {
    for (const Distribution distribution : distributions()) {
      for (const std::int64_t d : {64, 128, 256}) {
        for (const Mask mask : kMasks) {
          expect_exact(*mma_, problem(1, 2, 2, 300, 300, d, dtype, mask),
                       {.distribution = distribution});
        }
      }
    }
  }
}

// What the tiles of GPUs with 99 KB (8.6, 8.9) and 163 KB (8.0) of shared memory compute.
TEST_F(FusedMmaTest, IsExactWithTheTilesOfSmallerGpus) {
  for (const std::int64_t kilobytes : {99, 163}) {
    SmallerDevice smaller(*backend().device, kilobytes * 1024);
    for (const Dtype dtype : kDtypes) {
      for (const std::int64_t d : {32, 64, 96, 128, 160, 192, 256}) {
        expect_exact(*mma_, problem(1, 2, 1, 300, 250, d, dtype, Mask::causal),
                     {.device = &smaller});
        expect_exact(*mma_, problem(1, 2, 1, 300, 250, d, dtype, Mask::none), {.device = &smaller});
      }
    }
  }
}

TEST_F(FusedMmaTest, NeedsNoLogSumExp) {
  expect_exact(*mma_, problem(1, 2, 2, 300, 300, 128, Dtype::bf16, Mask::causal), {.lse = false});
}

TEST_F(FusedMmaTest, RefusesWhatItCannotDo) {
  const DeviceInfo& device = backend().device->info();
  const auto reason = [&](std::int64_t d, Dtype dtype) {
    return mma_->unsupported(problem(1, 1, 1, 4, 4, d, dtype, Mask::none), device).value_or("");
  };
  EXPECT_EQ(reason(256, Dtype::f16), "");
  EXPECT_EQ(reason(64, Dtype::f32), "tensor cores take f16 and bf16, not f32");
  EXPECT_EQ(reason(100, Dtype::f16), "head dim 100 is not a multiple of 8");
  EXPECT_EQ(reason(264, Dtype::f16), "head dim 264 is above 256");
  DeviceInfo old = device;
  old.compute_capability = 75;
  EXPECT_EQ(mma_->unavailable(old).value_or(""),
            "needs compute capability 8.0, this device has 7.5");
}

TEST_F(FusedMmaTest, ReadsKeysAndValuesOnceWhereTheyFitTheCache) {
  const DeviceInfo& device = backend().device->info();
  const Problem p = problem(1, 16, 16, 1 << 14, 1 << 14, 128, Dtype::bf16, Mask::none);
  const auto model = mma_->model(p, device);
  ASSERT_TRUE(model.has_value());
  ASSERT_EQ(model->size(), 1U);
  EXPECT_EQ((*model)[0].read_bytes + (*model)[0].write_bytes, p.operand_bytes());
}

}  // namespace
}  // namespace flashbench
