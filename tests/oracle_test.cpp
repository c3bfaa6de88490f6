#include "oracle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "exactness.h"
#include "reference/oracle.h"
#include "simulated_kernels.h"

namespace flashbench {
namespace {

Problem one_head(std::int64_t n_q, std::int64_t n_kv, std::int64_t head_dim) {
  Problem problem;
  problem.n_q = n_q;
  problem.n_kv = n_kv;
  problem.head_dim = head_dim;
  problem.scale = default_scale(head_dim);
  return problem;
}

class OracleTest : public testing::Test {
 protected:
  OracleRows truth(test::HostProblem& host) {
    return oracle_->rows(host.problem, host.operands(), select_rows(host.problem, 1e12, 0));
  }
  static void set(const Tensor& tensor, std::int64_t n, std::int64_t c, float value) {
    store_element(tensor.data, tensor.dtype, tensor.at(0, n, 0, c), value);
  }

  std::unique_ptr<Oracle> oracle_ = make_cpu_oracle();
};

TEST_F(OracleTest, EqualScoresAverageTheValues) {
  test::HostProblem host(one_head(3, 50, 8), {Distribution::equal, 1}, *oracle_);
  const Operands operands = host.operands();
  const OracleRows rows = truth(host);
  for (std::int64_t c = 0; c < 8; ++c) {
    double mean = 0;
    double magnitude = 0;
    double square = 0;
    for (std::int64_t j = 0; j < 50; ++j) {
      const double v = load_element(operands.v.data, Dtype::f32, operands.v.at(0, j, 0, c));
      mean += v / 50;
      magnitude += std::fabs(v);
      square += v * v / 2500;
    }
    const auto i = static_cast<std::size_t>(c);
    EXPECT_NEAR(rows.out[i], mean, 1e-14);
    EXPECT_NEAR(rows.weight_sum[i], magnitude / 50, 1e-14);
    EXPECT_NEAR(rows.value_sum[i], magnitude, 1e-12);
    EXPECT_NEAR(rows.weight_square[i], square, 1e-14);
  }
  EXPECT_NEAR(rows.row_sum[0], 50.0, 1e-12);
}

TEST_F(OracleTest, TwoKeysAreALogistic) {
  test::HostProblem host(one_head(1, 2, 1), {}, *oracle_);
  const Operands operands = host.operands();
  for (const double gap : {0.0, 0.5, 3.0, -20.0, 600.0}) {
    set(operands.q, 0, 0, 2.0F);
    set(operands.k, 0, 0, static_cast<float>(gap / 2));
    set(operands.k, 1, 0, 0.0F);
    set(operands.v, 0, 0, 5.0F);
    set(operands.v, 1, 0, -3.0F);
    const OracleRows rows = truth(host);
    const double p = 1.0 / (1.0 + std::exp(-gap));
    EXPECT_NEAR(rows.out[0], 5.0 * p - 3.0 * (1.0 - p), 1e-14);
    EXPECT_NEAR(rows.lse[0], std::max(gap, 0.0) + std::log1p(std::exp(-std::fabs(gap))), 1e-12);
    EXPECT_NEAR(rows.value_distance[0], 8.0 * std::max(p, 1.0 - p), 1e-14);
  }
}

// The bound of the perturbed weights against its definition, term by term.
TEST_F(OracleTest, PerturbationOfTwoKeys) {
  test::HostProblem host(one_head(1, 2, 1), {}, *oracle_);
  const Operands operands = host.operands();
  set(operands.q, 0, 0, 1.0F);
  set(operands.k, 0, 0, 1.5F);
  set(operands.k, 1, 0, -0.25F);
  set(operands.v, 0, 0, 1.0F);
  set(operands.v, 1, 0, 0.0F);
  const OracleRows rows = truth(host);
  const double p = 1.0 / (1.0 + std::exp(-1.75));
  const double u = std::ldexp(1.0, -24);
  const double delta[2] = {u * (4 * 1.5 + 4 * 1.5 + 4), u * (4 * 0.25 + 4 * 0.25 + 4 * 2.75)};
  const double numerator = p * std::expm1(delta[0]) * (1 - p) + (1 - p) * std::expm1(delta[1]) * p;
  const double denominator = p * std::exp(-delta[0]) + (1 - p) * std::exp(-delta[1]);
  EXPECT_NEAR(rows.scores[0].bound[0], numerator / denominator, 1e-12 * numerator);
  EXPECT_TRUE(rows.scores[1].bound.empty()) << "f32 problems store scores in f32 either way";
}

TEST_F(OracleTest, OneHotTakesTheValue) {
  Problem problem = one_head(20, 64, 64);
  problem.mask = Mask::causal;
  problem.dtype = Dtype::bf16;
  test::HostProblem host(problem, {Distribution::one_hot, 5}, *oracle_);
  const OracleRows rows = truth(host);
  const Operands operands = host.operands();
  for (std::size_t r = 0; r < rows.rows.size(); ++r) {
    double nearest = INFINITY;
    for (std::int64_t j = 0; j < problem.visible_keys(rows.rows[r].row); ++j) {
      double distance = 0;
      for (std::int64_t c = 0; c < 64; ++c) {
        const double v = load_element(operands.v.data, Dtype::bf16, operands.v.at(0, j, 0, c));
        distance =
            std::max(distance, std::fabs(v - rows.out[r * 64 + static_cast<std::size_t>(c)]));
      }
      nearest = std::min(nearest, distance);
    }
    EXPECT_LT(nearest, 1e-6);
  }
}

TEST_F(OracleTest, OnesGiveOne) {
  test::HostProblem host(one_head(7, 33, 16), {Distribution::ones, 2}, *oracle_);
  for (const double o : truth(host).out) EXPECT_NEAR(o, 1.0, 1e-14);
}

TEST_F(OracleTest, RowsWithoutVisibleKeysAreZero) {
  Problem problem = one_head(9, 4, 8);
  problem.mask = Mask::causal;
  test::HostProblem host(problem, {Distribution::normal, 2}, *oracle_);
  const OracleRows rows = truth(host);
  for (std::size_t r = 0; r < 5; ++r) {
    EXPECT_EQ(rows.lse[r], -std::numeric_limits<double>::infinity());
    for (std::size_t c = 0; c < 8; ++c) EXPECT_EQ(rows.out[r * 8 + c], 0.0);
  }
  for (std::size_t r = 5; r < 9; ++r) EXPECT_TRUE(std::isfinite(rows.lse[r]));
  // The first row that sees a key sees one: its value is the output.
  const Operands operands = host.operands();
  for (std::int64_t c = 0; c < 8; ++c) {
    EXPECT_NEAR(rows.out[40 + static_cast<std::size_t>(c)],
                load_element(operands.v.data, Dtype::f32, operands.v.at(0, 0, 0, c)), 1e-14);
  }
}

// Independent of the implementation: plain formulas in long double, straight from the definition.
TEST_F(OracleTest, AgreesWithTheDefinitionUnderGroupsAndStrides) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    Problem problem;
    problem.batch = 2;
    problem.heads = 6;
    problem.kv_heads = 3;
    problem.n_q = 11;
    problem.n_kv = 17;
    problem.head_dim = 13;
    problem.scale = 0.4;
    problem.dtype = dtype;
    problem.mask = Mask::causal;
    test::HostProblem host(problem, {Distribution::normal, 4}, *oracle_);
    // Layout [batch, heads, rows, head_dim], rows padded by three elements.
    Operands operands = host.operands();
    std::vector<std::uint8_t> moved(host.k.size() * 2);
    Tensor k = operands.k;
    k.data = moved.data();
    k.stride = {816, 16, 272, 1};  // 16 a row, 17 rows a head, 3 heads
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t j = 0; j < 17; ++j) {
        for (std::int64_t h = 0; h < 3; ++h) {
          for (std::int64_t c = 0; c < 13; ++c) {
            const double x = load_element(host.k.data(), dtype, operands.k.at(b, j, h, c));
            store_element(moved.data(), dtype, k.at(b, j, h, c), static_cast<float>(x));
          }
        }
      }
    }
    operands.k = k;
    const std::vector<RowId> rows = select_rows(problem, 1e12, 0);
    const OracleRows result = oracle_->rows(problem, operands, rows);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const auto [b, h, i] = rows[r];
      std::vector<long double> weights;
      long double l = 0;
      for (std::int64_t j = 0; j <= i + 6; ++j) {
        long double s = 0;
        for (std::int64_t c = 0; c < 13; ++c) {
          s += static_cast<long double>(
                   load_element(host.q.data(), dtype, operands.q.at(b, i, h, c))) *
               static_cast<long double>(load_element(moved.data(), dtype, k.at(b, j, h / 2, c)));
        }
        weights.push_back(std::exp(0.4L * s));
        l += weights.back();
      }
      for (std::int64_t c = 0; c < 13; ++c) {
        long double o = 0;
        for (std::int64_t j = 0; j <= i + 6; ++j) {
          o += weights[static_cast<std::size_t>(j)] / l *
               static_cast<long double>(
                   load_element(host.v.data(), dtype, operands.v.at(b, j, h / 2, c)));
        }
        EXPECT_NEAR(result.out[r * 13 + static_cast<std::size_t>(c)], static_cast<double>(o),
                    1e-13);
      }
      EXPECT_NEAR(result.lse[r], static_cast<double>(std::log(l)), 1e-13);
    }
  }
}

TEST_F(OracleTest, LargestScoreIsExactWhereTheBoundIsNotEnough) {
  Problem problem = one_head(40, 40, 16);
  problem.dtype = Dtype::f16;
  problem.mask = Mask::causal;
  test::HostProblem host(problem, {Distribution::large, 4}, *oracle_);
  const Operands operands = host.operands();
  double largest = 0;
  for (std::int64_t i = 0; i < 40; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      double s = 0;
      for (std::int64_t c = 0; c < 16; ++c) {
        s += load_element(operands.q.data, Dtype::f16, operands.q.at(0, i, 0, c)) *
             load_element(operands.k.data, Dtype::f16, operands.k.at(0, j, 0, c));
      }
      largest = std::max(largest, std::fabs(problem.scale * s));
    }
  }
  EXPECT_NEAR(oracle_->largest_score(problem, operands, 1.0), largest, 1e-9);
  const double bound = oracle_->largest_score(problem, operands, 65504.0);
  EXPECT_GE(bound, largest);
  EXPECT_LT(bound, 65504.0);
}

TEST_F(OracleTest, ScanFindsPoisonNonFiniteAndTheWorstRow) {
  Problem problem = one_head(100, 5, 64);
  problem.dtype = Dtype::bf16;
  test::HostProblem host(problem, {Distribution::ones, 1}, *oracle_);
  const Tensor out = host.operands().o;
  EXPECT_EQ(oracle_->scan(out, nullptr).poisoned, 6400);
  for (std::int64_t i = 0; i < 6400; ++i) store_element(out.data, out.dtype, i, 1.0F);
  std::vector<std::uint8_t> copy = host.o;
  Tensor other = out;
  other.data = copy.data();
  OutputScan scan = oracle_->scan(out, &other);
  EXPECT_EQ(scan.poisoned + scan.non_finite + scan.differing_elements, 0);
  EXPECT_EQ(scan.max_row_difference, 0.0);

  for (std::int64_t c = 0; c < 16; ++c) store_element(out.data, out.dtype, 4480 + c, 3.0F);
  scan = oracle_->scan(out, &other);
  EXPECT_EQ(scan.differing_elements, 16);
  EXPECT_EQ(scan.worst_row, (RowId{0, 0, 70}));
  EXPECT_EQ(scan.max_abs_difference, 2.0);
  EXPECT_DOUBLE_EQ(scan.max_row_difference, 1.0);  // sqrt(16 * 4 / 64)

  store_element(out.data, out.dtype, 3, std::numeric_limits<float>::infinity());
  scan = oracle_->scan(out, &other);
  EXPECT_EQ(scan.non_finite, 1);
  EXPECT_EQ(scan.poisoned, 0);
  EXPECT_EQ(scan.max_row_difference, std::numeric_limits<double>::infinity());
  EXPECT_EQ(scan.worst_row, (RowId{0, 0, 0}));
}

}  // namespace
}  // namespace flashbench
