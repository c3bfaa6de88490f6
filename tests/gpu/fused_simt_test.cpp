#include <string>

#include "device_fixture.h"
#include "kernels/catalogue.h"

namespace flashbench {
namespace {

constexpr Dtype kDtypes[] = {Dtype::f32, Dtype::f16, Dtype::bf16};
constexpr Mask kMasks[] = {Mask::none, Mask::causal};

class FusedSimtTest : public KernelTest {
 protected:
  std::unique_ptr<Implementation> simt_ = make_fused_simt();
};

TEST_F(FusedSimtTest, IsExactForEveryHeadDim) {
  for (const Dtype dtype : kDtypes) {
    for (std::int64_t d = 8; d <= 256; d += 8) {
      expect_exact(*simt_, problem(1, 2, 1, 100 + d % 60, 70 + d % 90, d, dtype, Mask::causal));
    }
  }
}

TEST_F(FusedSimtTest, IsExactAtTheEdgesOfTiles) {
  for (const Dtype dtype : kDtypes) {
    for (const Mask mask : kMasks) {
      for (const std::int64_t n : {1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 257}) {
        for (const std::int64_t d : {64, 128, 256}) {
          expect_exact(*simt_, problem(1, 2, 2, n, n, d, dtype, mask));
          expect_exact(*simt_, problem(1, 2, 1, n, n * 7 % 200 + 1, d, dtype, mask));
        }
      }
    }
  }
}

TEST_F(FusedSimtTest, IsExactForGroupedQueriesAndManyHeads) {
  for (const Dtype dtype : kDtypes) {
    expect_exact(*simt_, problem(2, 12, 3, 70, 90, 64, dtype, Mask::causal));
    expect_exact(*simt_, problem(2, 8, 1, 70, 90, 128, dtype, Mask::none));
    expect_exact(*simt_, problem(300, 250, 50, 2, 3, 8, dtype, Mask::causal));  // 75 000 heads
  }
}

TEST_F(FusedSimtTest, IsExactInAnyLayout) {
  for (const Dtype dtype : kDtypes) {
    for (const Layout layout : {Layout::heads_first, Layout::padded, Layout::unaligned}) {
      expect_exact(*simt_, problem(2, 4, 2, 150, 90, 72, dtype, Mask::causal), {.layout = layout});
    }
  }
}

TEST_F(FusedSimtTest, IsExactOnEveryDistribution) {
  for (const Dtype dtype : kDtypes) {
    for (const Distribution distribution : distributions()) {
      for (const Mask mask : kMasks) {
        expect_exact(*simt_, problem(1, 2, 2, 300, 300, 64, dtype, mask),
                     {.distribution = distribution});
      }
    }
  }
}

TEST_F(FusedSimtTest, IsExactForLongRows) {
  expect_exact(*simt_, problem(1, 1, 1, 3, 300'001, 64, Dtype::f32, Mask::causal));
  expect_exact(*simt_, problem(1, 1, 1, 2000, 2000, 128, Dtype::bf16, Mask::causal),
               {.lse = false});
}

TEST_F(FusedSimtTest, RefusesWhatItCannotDo) {
  const DeviceInfo& device = backend().device->info();
  const auto reason = [&](std::int64_t d) {
    return simt_->unsupported(problem(1, 1, 1, 4, 4, d, Dtype::f32, Mask::none), device)
        .value_or("");
  };
  EXPECT_EQ(reason(256), "");
  EXPECT_EQ(reason(100), "head dim 100 is not a multiple of 8");
  EXPECT_EQ(reason(264), "head dim 264 is above 256");
  DeviceInfo old = device;
  old.compute_capability = 70;
  EXPECT_EQ(simt_->unavailable(old).value_or(""),
            "needs compute capability 7.5, this device has 7.0");
}

}  // namespace
}  // namespace flashbench
