#include "exactness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "reference/oracle.h"
#include "simulated_kernels.h"

namespace flashbench {
namespace {

using test::simulate;
using test::Simulation;
using testing::HasSubstr;

Problem causal(Dtype dtype, std::int64_t n, std::int64_t head_dim = 64) {
  Problem problem;
  problem.heads = 2;
  problem.n_q = n;
  problem.n_kv = n;
  problem.head_dim = head_dim;
  problem.scale = default_scale(head_dim);
  problem.dtype = dtype;
  problem.mask = Mask::causal;
  return problem;
}

/// A problem with the truth of some rows, ready to judge simulated kernels.
struct Judged {
  Judged(const Problem& the_problem, Distribution the_distribution, std::uint64_t seed = 1)
      : oracle(make_cpu_oracle()),
        host(the_problem, {the_distribution, seed}, *oracle),
        distribution(the_distribution),
        rows(select_rows(the_problem, 4e6, seed)),
        truth(oracle->rows(the_problem, host.operands(), rows)) {}

  std::vector<double> output(const Simulation& simulation) {
    return simulate(host.problem, host.operands(), rows, simulation);
  }
  Exactness judge_values(std::span<const double> got, bool materialised = false) const {
    Arithmetic arithmetic;
    arithmetic.scores_in_dtype = materialised;
    arithmetic.weights_normalised = materialised;
    return judge(host.problem, arithmetic, truth, got, is_generic(distribution));
  }
  Exactness judge_simulation(const Simulation& simulation) {
    return judge_values(output(simulation), simulation.materialised);
  }

  std::unique_ptr<Oracle> oracle;
  test::HostProblem host;
  Distribution distribution;
  std::vector<RowId> rows;
  OracleRows truth;
};

TEST(Judge, RoundedTruthIsExact) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    const Judged judged(causal(dtype, 200), Distribution::normal);
    std::vector<double> got;
    for (const double o : judged.truth.out) {
      got.push_back(static_cast<double>(test::round_to(dtype, static_cast<float>(o))));
    }
    const Exactness exactness = judged.judge_values(got);
    EXPECT_EQ(exactness.verdict, Verdict::exact);
    EXPECT_LE(exactness.bound_ratio, 1.0);
    EXPECT_GT(exactness.bound_ratio, 0.01) << "the bound has no teeth";
    EXPECT_LE(exactness.max_ulp, 0.501) << "half, but for rounding twice";
    EXPECT_EQ(exactness.rows_checked, 256);
    EXPECT_EQ(exactness.rows_total, 400);
    EXPECT_FALSE(exactness.reason.has_value());
  }
}

TEST(Judge, RightKernelsAreExact) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    for (const Distribution distribution : distributions()) {
      Judged judged(causal(dtype, 300), distribution);
      for (const bool materialised : {false, true}) {
        Simulation simulation;
        simulation.materialised = materialised;
        const Exactness exactness = judged.judge_simulation(simulation);
        EXPECT_EQ(exactness.verdict, Verdict::exact)
            << to_string(dtype) << ' ' << to_string(distribution) << ' '
            << exactness.reason.value_or("");
      }
    }
  }
}

TEST(Judge, ZerosAreNotExact) {
  const Judged judged(causal(Dtype::bf16, 100), Distribution::normal);
  const std::vector<double> got(judged.truth.out.size(), 0.0);
  const Exactness exactness = judged.judge_values(got);
  EXPECT_EQ(exactness.verdict, Verdict::not_exact);
  EXPECT_DOUBLE_EQ(exactness.rel_frobenius, 1.0);
  EXPECT_THAT(exactness.reason.value_or(""), HasSubstr("times its bound"));
}

TEST(Judge, OneNonFiniteElementIsNotExactAndIsNamed) {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Judged judged(causal(Dtype::bf16, 100), Distribution::normal);
    std::vector<double> got = judged.output({});
    got[40 * 64 + 7] = bad;
    const Exactness exactness = judged.judge_values(got);
    EXPECT_EQ(exactness.verdict, Verdict::not_exact);
    EXPECT_TRUE(std::isinf(exactness.bound_ratio));
    EXPECT_EQ(exactness.worst.row, judged.rows[40]);
    EXPECT_EQ(exactness.worst.column, 7);
    EXPECT_THAT(exactness.reason.value_or(""), HasSubstr("row 40, column 7"));
  }
}

TEST(Judge, FiniteWhereTheTruthIsNot) {
  Judged judged(causal(Dtype::f16, 100), Distribution::non_finite_visible);
  std::vector<double> got = judged.output({});
  EXPECT_EQ(judged.judge_values(got).verdict, Verdict::exact);
  for (double& x : got) x = std::isfinite(x) ? x : 0.0;
  EXPECT_EQ(judged.judge_values(got).verdict, Verdict::not_exact);
}

TEST(Judge, EmptyRowsMustBeZero) {
  Problem problem = causal(Dtype::f32, 16);
  problem.n_kv = 8;
  Judged judged(problem, Distribution::normal);
  std::vector<double> got = judged.output({});
  EXPECT_EQ(judged.judge_values(got).verdict, Verdict::exact);
  got[3] = 1e-30;
  const Exactness exactness = judged.judge_values(got);
  EXPECT_EQ(exactness.verdict, Verdict::not_exact);
  EXPECT_THAT(exactness.reason.value_or(""), HasSubstr("where the truth is 0"));
}

TEST(Judge, NothingCheckedIsNoVerdict) {
  const Problem problem = causal(Dtype::f32, 16);
  const OracleRows none = make_oracle_rows(problem, {});
  EXPECT_EQ(judge(problem, {}, none, {}, true).verdict, Verdict::not_checked);
}

// The smallest faults that matter, each on data where it must show.
struct Fault {
  const char* name = "";
  Simulation simulation;
  Distribution distribution = Distribution::normal;
};

TEST(Judge, FaultyKernelsAreNotExact) {
  std::vector<Fault> faults(8);
  faults[0] = {"eight keys of 1000 dropped", {}};
  faults[0].simulation.dropped_from = 496;
  faults[0].simulation.dropped_to = 504;
  faults[1] = {"weights in fp8", {}};
  faults[1].simulation.fp8_weights = true;
  faults[2] = {"sum in the dtype", {}};
  faults[2].simulation.sum_in_dtype = true;
  faults[3] = {"accumulator in the dtype", {}, Distribution::position};
  faults[3].simulation.accumulator_in_dtype = true;
  faults[4] = {"mask one key late", {}};
  faults[4].simulation.mask_shift = 1;
  faults[5] = {"mask one key early", {}};
  faults[5].simulation.mask_shift = -1;
  faults[6] = {"rescale forgotten", {}, Distribution::increasing};
  faults[6].simulation.forget_rescale = true;
  faults[7] = {"a tile dropped", {}, Distribution::position};
  faults[7].simulation.dropped_from = 640;
  faults[7].simulation.dropped_to = 704;
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    for (const Fault& fault : faults) {
      Judged judged(causal(dtype, 1000), fault.distribution);
      const Exactness exactness = judged.judge_simulation(fault.simulation);
      EXPECT_EQ(exactness.verdict, Verdict::not_exact)
          << fault.name << ' ' << to_string(dtype) << ": bound_ratio " << exactness.bound_ratio;
    }
  }
}

// Sixty keys of 8192 lie below the bound in bf16; the noise shows them.
TEST(Judge, NoiseShowsSixtyKeysOfEightThousand) {
  Problem problem = causal(Dtype::bf16, 8192);
  problem.heads = problem.kv_heads = 1;
  problem.mask = Mask::none;
  problem.n_q = 64;
  Judged judged(problem, Distribution::normal);
  Simulation simulation;
  simulation.dropped_from = 8192 - 60;
  simulation.dropped_to = 8192;
  const Exactness right = judged.judge_simulation({});
  EXPECT_EQ(right.verdict, Verdict::exact);
  const Exactness wrong = judged.judge_simulation(simulation);
  EXPECT_EQ(wrong.verdict, Verdict::not_exact);
  EXPECT_GT(*wrong.row_noise, 2.0 * *wrong.row_noise_limit);
}

// P in f16 goes subnormal where there are many keys; values near its smallest number show it.
TEST(Judge, UnderflowIsAllowedFor) {
  Judged judged(causal(Dtype::f16, 400), Distribution::denormal);
  Simulation simulation;
  simulation.materialised = true;
  EXPECT_EQ(judged.judge_simulation(simulation).verdict, Verdict::exact);
}

TEST(Judge, ScaleOfValuesDoesNotMatter) {
  Judged judged(causal(Dtype::f32, 200), Distribution::normal);
  const std::vector<double> got = judged.output({});
  const double before = judged.judge_values(got).bound_ratio;
  OracleRows scaled = judged.truth;
  const double factor = 0x1p40;
  for (std::vector<double>* sums : {&scaled.out, &scaled.weight_sum, &scaled.value_sum,
                                    &scaled.value_distance, &scaled.scores[0].bound}) {
    for (double& x : *sums) x *= factor;
  }
  for (std::vector<double>* sums : {&scaled.weight_square, &scaled.scores[0].variance}) {
    for (double& x : *sums) x *= factor * factor;
  }
  std::vector<double> scaled_got = got;
  for (double& x : scaled_got) x *= factor;
  const Exactness after = judge(judged.host.problem, {}, scaled, scaled_got, true);
  EXPECT_NEAR(after.bound_ratio, before, 1e-6 * before);
}

TEST(SelectRows, AllWhereThatIsCheap) {
  const Problem problem = causal(Dtype::f32, 100);
  const std::vector<RowId> rows = select_rows(problem, 1e9, 1);
  ASSERT_EQ(rows.size(), 200U);
  EXPECT_EQ(rows.front(), (RowId{0, 0, 0}));
  EXPECT_EQ(rows.back(), (RowId{0, 1, 99}));
}

TEST(SelectRows, SamplesEndsEdgesAndAllHeads) {
  Problem problem = causal(Dtype::f32, 16384);
  problem.batch = 2;
  problem.heads = problem.kv_heads = 16;
  const std::vector<RowId> rows = select_rows(problem, 1e6, 1);
  EXPECT_GE(rows.size(), 256U);
  EXPECT_LT(rows.size(), 300U);
  std::set<std::int64_t> places;
  std::set<std::pair<std::int64_t, std::int64_t>> heads;
  for (const RowId& row : rows) {
    places.insert(row.row);
    heads.insert({row.batch, row.head});
    EXPECT_LT(row.row, problem.n_q);
  }
  for (const std::int64_t edge : {0, 1, 63, 64, 65, 127, 128, 129, 16382, 16383}) {
    EXPECT_TRUE(places.contains(edge)) << edge;
  }
  EXPECT_EQ(heads.size(), 32U);
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end(), [](const RowId& a, const RowId& b) {
    return std::tuple(a.batch, a.head, a.row) < std::tuple(b.batch, b.head, b.row);
  }));
  EXPECT_EQ(rows, select_rows(problem, 1e6, 1)) << "a seed repeats";
  EXPECT_NE(rows, select_rows(problem, 1e6, 2));
}

TEST(SelectRows, ManyHeadsOfFewRows) {
  Problem problem = causal(Dtype::f32, 4);
  problem.batch = 70000;
  problem.heads = problem.kv_heads = 2;
  const std::vector<RowId> rows = select_rows(problem, 1e5, 1);
  EXPECT_GE(rows.size(), 256U);
  EXPECT_EQ(rows.front(), (RowId{0, 0, 0}));
  EXPECT_EQ(rows.back(), (RowId{69999, 1, 3}));
}

class CompareOutputs : public testing::Test {
 protected:
  CompareOutputs() : judged_(problem(), Distribution::normal) {
    all_ = select_rows(problem(), 1e12, 0);
    const Operands operands = judged_.host.operands();
    fused_ = simulate(problem(), operands, all_, {});
    Simulation materialised;
    materialised.materialised = true;
    naive_ = simulate(problem(), operands, all_, materialised);
  }
  static Problem problem() { return causal(Dtype::bf16, 600); }

  std::optional<std::string> compare() {
    std::vector<double> got;
    std::vector<double> reference;
    Tensor mine = store(fused_, mine_bytes_);
    Tensor theirs = store(naive_, theirs_bytes_);
    const OutputScan scan = judged_.oracle->scan(mine, &theirs);
    for (std::size_t r = 0; r < all_.size(); ++r) {
      if (std::find(judged_.rows.begin(), judged_.rows.end(), all_[r]) == judged_.rows.end())
        continue;
      for (std::size_t i = r * 64; i < (r + 1) * 64; ++i) {
        got.push_back(fused_[i]);
        reference.push_back(naive_[i]);
      }
    }
    EXPECT_LT(got.size(), fused_.size()) << "some rows must be left out";
    return compare_outputs(problem(), scan, got, reference);
  }

  Judged judged_;
  std::vector<RowId> all_;
  std::vector<double> fused_;
  std::vector<double> naive_;

 private:
  Tensor store(const std::vector<double>& values, std::vector<std::uint8_t>& bytes) {
    bytes.resize(values.size() * 2);
    const Tensor out = contiguous(bytes.data(), Dtype::bf16, 1, 600, 2, 64);
    for (std::size_t r = 0; r < all_.size(); ++r) {
      for (std::size_t c = 0; c < 64; ++c) {
        const std::int64_t at = out.at(0, all_[r].row, all_[r].head, static_cast<std::int64_t>(c));
        store_element(bytes.data(), Dtype::bf16, at, static_cast<float>(values[r * 64 + c]));
      }
    }
    return out;
  }
  std::vector<std::uint8_t> mine_bytes_;
  std::vector<std::uint8_t> theirs_bytes_;
};

TEST_F(CompareOutputs, RightOnesAgree) {
  EXPECT_EQ(compare(), std::nullopt);
}

TEST_F(CompareOutputs, OneUnsampledRowOffIsNamed) {
  std::size_t r = 0;
  while (std::find(judged_.rows.begin(), judged_.rows.end(), all_[r]) != judged_.rows.end()) ++r;
  for (std::size_t c = 0; c < 64; ++c) fused_[r * 64 + c] *= 1.06;
  EXPECT_THAT(compare().value_or(""),
              HasSubstr("row " + std::to_string(all_[r].row) + " of batch 0"));
}

}  // namespace
}  // namespace flashbench
