#include "problem.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "error.h"

namespace flashbench {
namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

Problem sized(std::int64_t n_q, std::int64_t n_kv, Mask mask) {
  Problem problem;
  problem.n_q = n_q;
  problem.n_kv = n_kv;
  problem.mask = mask;
  return problem;
}

std::string refusal(const Problem& problem) {
  try {
    problem.validate();
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(ProblemTest, CountsElementsAndBytes) {
  const Problem problem{2, 12, 3, 5, 7, 64, Dtype::bf16, Mask::none, 0.125};
  EXPECT_EQ(problem.q_elements(), 2 * 12 * 5 * 64);
  EXPECT_EQ(problem.kv_elements(), 2 * 3 * 7 * 64);
  EXPECT_EQ(problem.operand_bytes(), 2 * 2 * (2 * 12 * 5 * 64 + 2 * 3 * 7 * 64));
  EXPECT_EQ(problem.score_elements(), 2 * 12 * 5 * 7);
  EXPECT_EQ(problem.rows(), 2 * 12 * 5);
  EXPECT_DOUBLE_EQ(problem.flops(), 4.0 * 2 * 12 * 5 * 7 * 64);
  EXPECT_DOUBLE_EQ(problem.exps(), 2.0 * 12 * 5 * 7);
}

TEST(ProblemTest, CausalIsAlignedAtTheBottomRight) {
  const Problem square = sized(4, 4, Mask::causal);
  const Problem wide = sized(2, 5, Mask::causal);
  const Problem tall = sized(5, 2, Mask::causal);
  for (std::int64_t row = 0; row < 4; ++row) EXPECT_EQ(square.visible_keys(row), row + 1);
  EXPECT_EQ(wide.visible_keys(0), 4);
  EXPECT_EQ(wide.visible_keys(1), 5);
  const std::vector<std::int64_t> want = {0, 0, 0, 1, 2};
  for (std::int64_t row = 0; row < 5; ++row) {
    EXPECT_EQ(tall.visible_keys(row), want[static_cast<std::size_t>(row)]);
  }
  EXPECT_EQ(sized(5, 2, Mask::none).visible_keys(0), 2);
}

TEST(ProblemTest, VisiblePairsAreTheSumOverRows) {
  for (const Mask mask : {Mask::none, Mask::causal}) {
    for (std::int64_t n_q = 1; n_q <= 9; ++n_q) {
      for (std::int64_t n_kv = 1; n_kv <= 9; ++n_kv) {
        const Problem problem = sized(n_q, n_kv, mask);
        std::int64_t sum = 0;
        for (std::int64_t row = 0; row < n_q; ++row) sum += problem.visible_keys(row);
        EXPECT_EQ(problem.visible_pairs(), sum) << n_q << " x " << n_kv;
      }
    }
  }
}

TEST(ProblemTest, VisiblePairsOfTheLargestSquareFit) {
  const std::int64_t n = std::int64_t{1} << 31U;
  EXPECT_EQ(sized(n, n, Mask::causal).visible_pairs(), (n / 2) * (n + 1));
  const std::int64_t odd = n + 1;  // the other factor is the even one
  EXPECT_EQ(sized(odd, odd, Mask::causal).visible_pairs(), odd * ((odd + 1) / 2));
}

TEST(ProblemTest, ValidatesSizes) {
  EXPECT_EQ(refusal({}), "");
  const auto with = [](auto member, std::int64_t value) {
    Problem problem;
    problem.*member = value;
    return refusal(problem);
  };
  EXPECT_NE(with(&Problem::batch, 0).find("batch is 0"), std::string::npos);
  EXPECT_NE(with(&Problem::heads, -1).find("heads is -1"), std::string::npos);
  EXPECT_NE(with(&Problem::kv_heads, 0).find("kv-heads is 0"), std::string::npos);
  EXPECT_NE(with(&Problem::n_q, 0).find("n-q is 0"), std::string::npos);
  EXPECT_NE(with(&Problem::n_kv, 0).find("n-kv is 0"), std::string::npos);
  EXPECT_NE(with(&Problem::head_dim, 0).find("head-dim is 0"), std::string::npos);
  Problem grouped;
  grouped.heads = 6;
  grouped.kv_heads = 4;
  EXPECT_NE(refusal(grouped).find("heads 6 is not a multiple of kv-heads 4"), std::string::npos);
  grouped.kv_heads = 12;
  EXPECT_NE(refusal(grouped), "");
}

TEST(ProblemTest, ValidatesTheScale) {
  for (const double scale : {0.0, -1.0, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
    Problem problem;
    problem.scale = scale;
    EXPECT_NE(refusal(problem).find("scale"), std::string::npos) << scale;
  }
}

TEST(ProblemTest, RefusesWhatDoesNotFit64Bits) {
  Problem problem;
  problem.n_q = problem.n_kv = std::int64_t{1} << 20U;
  problem.heads = problem.kv_heads = 128;
  problem.head_dim = 256;
  EXPECT_EQ(refusal(problem), "");  // 2^40 scores a head, 2^57 operations
  problem.batch = 128;
  EXPECT_NE(refusal(problem).find("too large"), std::string::npos);
  problem.n_q = kLargest;
  EXPECT_NE(refusal(problem).find("too large"), std::string::npos);
  // No count may overflow where validate() passes: the largest of each kind by itself.
  Problem many;
  many.batch = std::int64_t{1} << 51U;
  EXPECT_EQ(refusal(many), "");
  EXPECT_GT(many.operand_bytes(), 0);
  EXPECT_GT(many.flops(), 0.0);
}

TEST(ProblemTest, CheckedArithmetic) {
  EXPECT_EQ(checked_multiply(std::int64_t{1} << 31U, std::int64_t{1} << 31U),
            std::int64_t{1} << 62U);
  EXPECT_THROW(checked_multiply(std::int64_t{1} << 32U, std::int64_t{1} << 31U), UsageError);
  EXPECT_EQ(checked_add(kLargest, 0), kLargest);
  EXPECT_THROW(checked_add(kLargest, 1), UsageError);
}

TEST(ProblemTest, ReadsBriefly) {
  EXPECT_EQ((Problem{1, 16, 16, 16384, 16384, 128, Dtype::bf16, Mask::causal, 1.0}).to_string(),
            "B1 H16 N16384 d128 bf16 causal");
  EXPECT_EQ((Problem{2, 16, 4, 1024, 4096, 64, Dtype::f32, Mask::none, 1.0}).to_string(),
            "B2 H16/4 N1024x4096 d64 f32");
}

TEST(ProblemTest, DefaultScaleIsTheInverseRootOfTheHeadDimension) {
  EXPECT_DOUBLE_EQ(default_scale(64), 0.125);
  EXPECT_DOUBLE_EQ(default_scale(1), 1.0);
}

}  // namespace
}  // namespace flashbench
