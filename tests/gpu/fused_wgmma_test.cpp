#include <string>

#include "device_fixture.h"
#include "kernels/catalogue.h"

namespace flashbench {
namespace {

constexpr Dtype kDtypes[] = {Dtype::f16, Dtype::bf16};
constexpr Mask kMasks[] = {Mask::none, Mask::causal};

class FusedWgmmaTest : public KernelTest {
 protected:
  void SetUp() override {
    if (const auto reason = wgmma_->unavailable(backend().device->info())) GTEST_SKIP() << *reason;
  }
  std::unique_ptr<Implementation> wgmma_ = make_fused_wgmma();
};

TEST_F(FusedWgmmaTest, IsExactForEveryHeadDim) {
  for (const Dtype dtype : kDtypes) {
    for (std::int64_t d = 8; d <= 256; d += 8) {
      expect_exact(*wgmma_, problem(1, 2, 1, 100 + d % 60, 70 + d % 90, d, dtype, Mask::causal));
    }
  }
}

TEST_F(FusedWgmmaTest, IsExactAtTheEdgesOfTilesAndBlocks) {
  for (const Dtype dtype : kDtypes) {
    for (const Mask mask : kMasks) {
      for (const std::int64_t n : {1, 2, 63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 256, 257}) {
        for (const std::int64_t d : {64, 128, 192}) {
          expect_exact(*wgmma_, problem(1, 2, 2, n, n, d, dtype, mask));
          expect_exact(*wgmma_, problem(1, 2, 1, n, n * 7 % 200 + 1, d, dtype, mask));
        }
      }
    }
  }
}

// The softmax keeps a reference that only some rows' scores make it leave; scores that jump by more
// than a float's exponent range must be caught too.
TEST_F(FusedWgmmaTest, IsExactWhenScoresLeaveTheReference) {
  for (const Dtype dtype : kDtypes) {
    for (const Mask mask : kMasks) {
      for (const std::int64_t d : {64, 96, 128, 256}) {
        for (const double factor : {20.0, 100.0, 10'000.0}) {
          Problem p = problem(1, 2, 2, 300, 700, d, dtype, mask);
          p.scale *= factor;
          expect_exact(*wgmma_, p);
        }
      }
    }
  }
}

TEST_F(FusedWgmmaTest, IsExactOnEveryDistribution) {
  for (const Dtype dtype : kDtypes) {
    for (const Distribution distribution : distributions()) {
      for (const Mask mask : kMasks) {
        for (const std::int64_t d : {64, 128, 256}) {
          expect_exact(*wgmma_, problem(1, 2, 2, 500, 500, d, dtype, mask),
                       {.distribution = distribution});
        }
      }
    }
  }
}

TEST_F(FusedWgmmaTest, IsExactForGroupedQueriesAndManyHeads) {
  for (const Dtype dtype : kDtypes) {
    expect_exact(*wgmma_, problem(2, 12, 3, 70, 90, 64, dtype, Mask::causal));
    expect_exact(*wgmma_, problem(2, 8, 1, 270, 190, 128, dtype, Mask::none));
    expect_exact(*wgmma_, problem(300, 250, 50, 2, 3, 8, dtype, Mask::causal));  // 75 000 heads
  }
}

// Grids smaller than the chip, and unmasked ones with a short last round, split tiles along the
// keys.
TEST_F(FusedWgmmaTest, IsExactWhenTilesAreSplit) {
  for (const Dtype dtype : kDtypes) {
    for (const std::int64_t d : {64, 96, 128, 192, 256}) {
      // Merging costs most at 256 columns, so that only long rows are worth it there.
      const Problem p = problem(1, 2, 1, 200, d == 256 ? 20'000 : 3000, d, dtype, Mask::none);
      Device& device = *backend().device;
      EXPECT_GT(wgmma_->workspace_bytes(p, device.info()), 4096) << "not split: tests nothing";
      expect_exact(*wgmma_, p);
      expect_exact(*wgmma_,
                   problem(1, 2, 1, 200, d == 256 ? 20'000 : 3000, d, dtype, Mask::causal));
      expect_exact(*wgmma_, problem(1, 1, 1, 2000, 2000, d, dtype, Mask::causal));
      expect_exact(*wgmma_, problem(1, 1, 1, 1, 5000, d, dtype, Mask::none));
      expect_exact(*wgmma_, problem(5, 10, 10, 700, 1500, d, dtype, Mask::none));
    }
  }
}

TEST_F(FusedWgmmaTest, IsExactInAnyAlignedLayout) {
  for (const Dtype dtype : kDtypes) {
    for (const Layout layout : {Layout::heads_first, Layout::padded}) {
      expect_exact(*wgmma_, problem(2, 4, 2, 150, 90, 72, dtype, Mask::causal), {.layout = layout});
      expect_exact(*wgmma_, problem(2, 4, 2, 250, 300, 128, dtype, Mask::none), {.layout = layout});
    }
  }
}

TEST_F(FusedWgmmaTest, IsExactForLongRows) {
  const Problem one_tile = problem(1, 1, 1, 3, 1'000'000, 64, Dtype::bf16, Mask::causal);
  constexpr std::int64_t kPartBytes =
      std::int64_t{256} * 64 * 4;  // of O: the whole chip takes part
  EXPECT_GT(wgmma_->workspace_bytes(one_tile, backend().device->info()), 60 * kPartBytes);
  expect_exact(*wgmma_, one_tile);
  expect_exact(*wgmma_, problem(1, 4, 4, 4000, 4000, 128, Dtype::f16, Mask::none), {.lse = false});
}

TEST_F(FusedWgmmaTest, RefusesWhatItCannotDo) {
  const DeviceInfo& device = backend().device->info();
  EXPECT_TRUE(wgmma_->unsupported(problem(1, 1, 1, 4, 4, 64, Dtype::f32, Mask::none), device));
  EXPECT_TRUE(wgmma_->unsupported(problem(1, 1, 1, 4, 4, 100, Dtype::f16, Mask::none), device));
  EXPECT_TRUE(wgmma_->unsupported(problem(1, 1, 1, 4, 4, 264, Dtype::f16, Mask::none), device));
  DeviceInfo other = device;
  other.compute_capability = 80;
  EXPECT_EQ(wgmma_->unavailable(other).value_or(""),
            "needs compute capability 9.0 (Hopper), this device has 8.0");
}

}  // namespace
}  // namespace flashbench
