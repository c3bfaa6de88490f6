#include "inputs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "error.h"
#include "exactness.h"
#include "input_values.h"
#include "reference/oracle.h"
#include "simulated_kernels.h"

namespace flashbench {
namespace {

Problem small_problem(Dtype dtype, Mask mask = Mask::none) {
  Problem problem;
  problem.batch = 2;
  problem.heads = 4;
  problem.kv_heads = 2;
  problem.n_q = 48;
  problem.n_kv = 80;
  problem.head_dim = 64;
  problem.scale = default_scale(64);
  problem.dtype = dtype;
  problem.mask = mask;
  return problem;
}

test::HostProblem fill(const Problem& problem, Distribution distribution, std::uint64_t seed = 1) {
  return {problem, {distribution, seed}, *make_cpu_oracle()};
}

std::vector<double> values(const Tensor& tensor) {
  std::vector<double> all;
  const std::int64_t count = tensor.shape[0] * tensor.shape[1] * tensor.shape[2] * tensor.shape[3];
  for (std::int64_t i = 0; i < count; ++i) {
    all.push_back(load_element(tensor.data, tensor.dtype, i));
  }
  return all;
}

/// The truth of all rows.
OracleRows truth_of(test::HostProblem& host) {
  return make_cpu_oracle()->rows(host.problem, host.operands(), select_rows(host.problem, 1e12, 0));
}

TEST(Inputs, NamesAreReadBack) {
  for (const Distribution distribution : distributions()) {
    EXPECT_EQ(parse_distribution(to_string(distribution)), distribution);
  }
  EXPECT_EQ(to_string(Distribution::one_hot), "one-hot");
}

TEST(Inputs, UnknownNameSaysWhatIsAccepted) {
  try {
    parse_distribution("gauss");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("'gauss'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("normal, uniform"), std::string::npos);
  }
}

TEST(Inputs, SeedRepeatsAndSeparates) {
  const Problem problem = small_problem(Dtype::bf16);
  const test::HostProblem a = fill(problem, Distribution::normal, 7);
  const test::HostProblem b = fill(problem, Distribution::normal, 7);
  const test::HostProblem c = fill(problem, Distribution::normal, 8);
  EXPECT_EQ(a.q, b.q);
  EXPECT_EQ(a.k, b.k);
  EXPECT_EQ(a.v, b.v);
  EXPECT_NE(a.q, c.q);
  EXPECT_NE(a.k, a.v);
}

// Changing a bit of any conversion, or of the order of operations, would make runs on two devices
// see different inputs; these bits pin the generator.
TEST(Inputs, NormalHasItsMoments) {
  const std::uint64_t count = 200000;
  double moments[5] = {};
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t bits = random_bits(3, 0, i);
    const double z = normal_from_bits(bits, mix64(bits + 0x9e3779b97f4a7c15ULL));
    double power = 1;
    for (double& moment : moments) {
      moment += power / static_cast<double>(count);
      power *= z;
    }
  }
  // Five standard deviations of each mean; the fourth moment of the binomial is 3 - 2 / 64.
  EXPECT_NEAR(moments[1], 0.0, 0.012);
  EXPECT_NEAR(moments[2], 1.0, 0.016);
  EXPECT_NEAR(moments[3], 0.0, 0.045);
  EXPECT_NEAR(moments[4], 2.97, 0.11);
}

TEST(Inputs, NeighboursAreUncorrelated) {
  const std::uint64_t count = 100000;
  for (const std::uint64_t lag : {1ULL, 2ULL, 64ULL, 128ULL, 4096ULL}) {
    double product = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto draw = [](std::uint64_t at) {
        return static_cast<double>(uniform_from_bits(random_bits(1, 0, at)));
      };
      product += draw(i) * draw(i + lag) / static_cast<double>(count);
    }
    EXPECT_NEAR(product, 0.0, 5.0 / 3.0 / std::sqrt(static_cast<double>(count))) << "lag " << lag;
  }
}

TEST(Inputs, EqualMakesAllScoresOfARowEqual) {
  test::HostProblem host = fill(small_problem(Dtype::f16), Distribution::equal);
  const OracleRows truth = truth_of(host);
  for (const double l : truth.row_sum) EXPECT_NEAR(l, 80.0, 1e-9);
}

TEST(Inputs, OneHotGivesOneKeyTheWeight) {
  test::HostProblem host = fill(small_problem(Dtype::bf16, Mask::causal), Distribution::one_hot);
  const OracleRows truth = truth_of(host);
  for (const double l : truth.row_sum) EXPECT_LT(l, 1.0 + 1e-3);
}

TEST(Inputs, MaximaMoveAsNamed) {
  for (const Distribution distribution : {Distribution::increasing, Distribution::decreasing}) {
    Problem problem = small_problem(Dtype::bf16);
    problem.n_kv = 4096;
    problem.n_q = 1;
    test::HostProblem host = fill(problem, distribution);
    const Operands operands = host.operands();
    double running = -INFINITY;
    int moved = 0;
    for (std::int64_t tile = 0; tile < problem.n_kv / 64; ++tile) {
      double largest = -INFINITY;
      for (std::int64_t j = tile * 64; j < (tile + 1) * 64; ++j) {
        double s = 0;
        for (std::int64_t c = 0; c < 64; ++c) {
          s += load_element(operands.q.data, Dtype::bf16, operands.q.at(0, 0, 0, c)) *
               load_element(operands.k.data, Dtype::bf16, operands.k.at(0, j, 0, c));
        }
        largest = std::max(largest, s);
      }
      moved += largest > running ? 1 : 0;
      running = std::max(running, largest);
    }
    EXPECT_EQ(moved, distribution == Distribution::increasing ? 64 : 1);
  }
}

TEST(Inputs, OffsetIsCommonToARow) {
  test::HostProblem host = fill(small_problem(Dtype::f16), Distribution::offset);
  const OracleRows truth = truth_of(host);
  int positive = 0;
  for (const double lse : truth.lse) {
    EXPECT_NEAR(std::fabs(lse), 1024.0, 12.0);
    positive += lse > 0 ? 1 : 0;
  }
  EXPECT_GT(positive, 100);
  EXPECT_LT(positive, 284);
}

TEST(Inputs, SizesAreAsNamed) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    test::HostProblem denormal = fill(small_problem(dtype), Distribution::denormal);
    const double smallest_normal = dtype == Dtype::f16 ? 0x1p-14 : 0x1p-126;
    double subnormal = 0;
    for (const double x : values(denormal.operands().v)) {
      EXPECT_LT(std::fabs(x), 2.2 * smallest_normal);
      subnormal += x != 0 && std::fabs(x) < smallest_normal ? 1 : 0;
    }
    EXPECT_GT(subnormal, 0.9 * static_cast<double>(denormal.problem.kv_elements()));

    test::HostProblem huge = fill(small_problem(dtype), Distribution::huge);
    double largest = 0;
    for (const double x : values(huge.operands().k)) {
      ASSERT_TRUE(std::isfinite(x));
      largest = std::max(largest, std::fabs(x));
    }
    EXPECT_GT(largest, 0.95 * max_finite(dtype));
    for (const double lse : truth_of(huge).lse) EXPECT_LT(std::fabs(lse), 20.0);
  }
}

TEST(Inputs, PositionCodesEachKeyOnce) {
  test::HostProblem host = fill(small_problem(Dtype::f32), Distribution::position);
  const OracleRows truth = truth_of(host);
  for (std::size_t r = 0; r < truth.rows.size(); ++r) {
    double sum = 0;
    for (std::size_t c = 0; c < 64; ++c) sum += truth.out[r * 64 + c];
    EXPECT_NEAR(sum, 1.0, 1e-12);
  }
}

TEST(Inputs, HiddenNonFiniteKeysChangeNoRowThatDoesNotSeeThem) {
  const Problem problem = small_problem(Dtype::bf16, Mask::causal);
  test::HostProblem host = fill(problem, Distribution::non_finite_hidden);
  test::HostProblem clean = fill(problem, Distribution::normal);
  const OracleRows truth = truth_of(host);
  const OracleRows wanted = truth_of(clean);
  for (std::size_t r = 0; r < truth.rows.size(); ++r) {
    if (truth.rows[r].row < problem.n_q - 3) {
      EXPECT_EQ(truth.out[r * 64], wanted.out[r * 64]);
    }
    if (truth.rows[r].row == problem.n_q - 1) {
      EXPECT_TRUE(std::isnan(truth.out[r * 64]));
    }
  }
}

TEST(Inputs, VisibleNonFiniteValuesStayInTheirColumn) {
  test::HostProblem host = fill(small_problem(Dtype::f16), Distribution::non_finite_visible);
  const OracleRows truth = truth_of(host);
  for (std::size_t r = 0; r < truth.rows.size(); ++r) {
    const bool nan_key = truth.rows[r].head < 2;  // key/value head 0
    EXPECT_EQ(std::isnan(truth.out[r * 64 + 1]), nan_key);
    EXPECT_FALSE(std::isfinite(truth.out[r * 64]));
  }
}

}  // namespace
}  // namespace flashbench
