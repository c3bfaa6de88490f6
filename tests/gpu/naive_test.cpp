#include <string>

#include "device_fixture.h"
#include "kernels/catalogue.h"

namespace flashbench {
namespace {

constexpr Dtype kDtypes[] = {Dtype::f32, Dtype::f16, Dtype::bf16};
constexpr Mask kMasks[] = {Mask::none, Mask::causal};

class NaiveTest : public KernelTest {
 protected:
  std::unique_ptr<Implementation> naive_ = make_naive();
};

TEST_F(NaiveTest, IsExactForAnyHeadDim) {
  for (const Dtype dtype : kDtypes) {
    for (const std::int64_t d : {1, 3, 8, 40, 64, 72, 100, 128, 256, 320}) {
      expect_exact(*naive_, problem(1, 2, 2, 90, 75, d, dtype, Mask::causal));
    }
  }
}

// Rows that start anywhere in a vector, of every length that has a path of its own.
TEST_F(NaiveTest, IsExactForAnyRowLength) {
  for (const Dtype dtype : kDtypes) {
    for (const Mask mask : kMasks) {
      for (const std::int64_t n :
           {1, 2, 3, 7, 8, 9, 31, 255, 256, 257, 511, 513, 1023, 1025, 2047, 2049}) {
        expect_exact(*naive_, problem(1, 2, 1, 5, n, 64, dtype, mask));
        expect_exact(*naive_, problem(2, 1, 1, n, n % 70 + 1, 64, dtype, mask));
      }
    }
  }
}

TEST_F(NaiveTest, IsExactForRowsLargerThanRegistersAndThanABlock) {
  for (const Dtype dtype : kDtypes) {
    for (const std::int64_t n : {16384, 20001, 40001, 70003, 131072, 140001, 300003}) {
      expect_exact(*naive_, problem(1, 1, 1, 3, n, 64, dtype, Mask::causal));
    }
  }
}

TEST_F(NaiveTest, IsExactForGroupedQueriesAndBatches) {
  for (const Dtype dtype : kDtypes) {
    for (const Mask mask : kMasks) {
      expect_exact(*naive_, problem(1, 8, 2, 50, 60, 64, dtype, mask));   // group longest
      expect_exact(*naive_, problem(2, 12, 6, 50, 60, 64, dtype, mask));  // kv heads longest
      expect_exact(*naive_, problem(9, 4, 2, 30, 60, 64, dtype, mask));   // batch longest
      expect_exact(*naive_, problem(2, 8, 1, 33, 20, 64, dtype, mask));   // multi-query
      expect_exact(*naive_, problem(300, 250, 1, 2, 3, 8, dtype, mask));  // 75 000 heads
    }
  }
}

TEST_F(NaiveTest, IsExactInAnyLayout) {
  for (const Dtype dtype : kDtypes) {
    for (const Layout layout : {Layout::heads_first, Layout::padded, Layout::unaligned}) {
      expect_exact(*naive_, problem(2, 4, 2, 70, 90, 64, dtype, Mask::causal), {.layout = layout});
    }
  }
}

TEST_F(NaiveTest, IsExactOnEveryDistribution) {
  for (const Dtype dtype : kDtypes) {
    for (const Distribution distribution : distributions()) {
      expect_exact(*naive_, problem(1, 2, 2, 300, 400, 64, dtype, Mask::none),
                   {.distribution = distribution});
      if (distribution == Distribution::non_finite_hidden) continue;  // 0 x NaN: dense PV sees them
      expect_exact(*naive_, problem(1, 2, 2, 300, 300, 64, dtype, Mask::causal),
                   {.distribution = distribution});
    }
  }
}

TEST_F(NaiveTest, NeedsTheScoresAndTheWorkspaceOfCublas) {
  const DeviceInfo& device = backend().device->info();
  const Problem small = problem(2, 3, 1, 5, 7, 64, Dtype::bf16, Mask::none);
  const Problem large = problem(1, 16, 16, 1 << 14, 1 << 14, 128, Dtype::bf16, Mask::none);
  // 420 bytes of scores and 240 of pointers, in units of 256
  const std::int64_t cublas = naive_->workspace_bytes(small, device) - 512 - 256;
  EXPECT_EQ(naive_->workspace_bytes(large, device), (std::int64_t{1} << 33) + cublas + 768);
}

TEST_F(NaiveTest, ReportsItsThreeSteps) {
  const auto model = naive_->model(problem(1, 4, 4, 1 << 13, 1 << 13, 128, Dtype::bf16, Mask::none),
                                   backend().device->info());
  ASSERT_TRUE(model.has_value());
  ASSERT_EQ(model->size(), 3U);
  const std::int64_t scores = std::int64_t{4} << 27;
  EXPECT_EQ((*model)[1].read_bytes, scores);
  EXPECT_EQ((*model)[1].write_bytes, scores);
}

}  // namespace
}  // namespace flashbench
