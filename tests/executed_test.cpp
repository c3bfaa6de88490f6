#include "executed.h"

#include <gmock/gmock.h>

#include "sample_run.h"

namespace flashbench {
namespace {

using ::testing::IsEmpty;

Problem causal_problem(std::int64_t n) {
  Problem problem = sample_problem(n);
  problem.mask = Mask::causal;
  return problem;
}

/// A cell whose tensor cores did this share of the whole square.
Cell executing(const Problem& problem, const std::string& name, double share) {
  Cell cell = ok_cell(problem, name, Kind::fused, 1e-3);
  count(cell, 1e9, 1e9);
  cell.counters->whole.tensor_bf16_ops = share * 4 * static_cast<double>(problem.head_dim) *
                                         static_cast<double>(problem.score_elements());
  return cell;
}

TEST(Executed, AgainstTheMaskAndTheSquare) {
  // 512 rows see 1 to 512 keys: 513 / 1024 of the square.
  const auto executed = executed_operations(executing(causal_problem(512), "naive", 1));
  ASSERT_TRUE(executed);
  EXPECT_DOUBLE_EQ(executed->operations, 4.0 * 16 * 128 * 512 * 512);
  EXPECT_DOUBLE_EQ(executed->over_unmasked, 1);
  EXPECT_DOUBLE_EQ(executed->over_algorithmic, 1024.0 / 513);
  const auto unmasked = executed_operations(executing(sample_problem(512), "naive", 1));
  EXPECT_DOUBLE_EQ(unmasked->over_algorithmic, 1);
}

TEST(Executed, EveryTypeCounts) {
  Cell cell = executing(sample_problem(512), "naive", 1);
  cell.counters->whole.tensor_f16_ops = cell.counters->whole.tensor_bf16_ops;
  EXPECT_DOUBLE_EQ(executed_operations(cell)->over_unmasked, 2);
}

TEST(Executed, NothingWithoutCountedOperations) {
  Cell cell = ok_cell(causal_problem(512), "naive", Kind::naive, 1e-3);
  EXPECT_FALSE(executed_operations(cell)) << "no counters";
  count(cell, 1e9, 1e9);
  cell.counters->whole.tensor_bf16_ops = 0;  // an f32 kernel's
  EXPECT_FALSE(executed_operations(cell));
  cell.counters->whole.tensor_bf16_ops.reset();
  EXPECT_FALSE(executed_operations(cell));
}

TEST(Executed, SharesOfTheLargestProblem) {
  flashbench::Run run = sample_run();
  for (const std::int64_t n : {512, 1024}) {
    run.cells.push_back(executing(causal_problem(n), "naive", 1));
    run.cells.push_back(executing(causal_problem(n), "fused", n == 512 ? 0.5625 : 0.53125));
    run.cells.push_back(executing(sample_problem(n), "fused", 1));
  }
  // The longest has no counters.
  run.cells.push_back(ok_cell(causal_problem(2048), "fused", Kind::fused, 1e-3));
  EXPECT_EQ(causal_shares(run),
            "  B1 H16 d128 bf16 causal, N = 1k: tensor operations of the whole square that are "
            "executed: naive 100.0 %, fused 53.1 %\n");
  run.cells.erase(run.cells.begin(), run.cells.end() - 1);
  EXPECT_THAT(causal_shares(run), IsEmpty());
}

}  // namespace
}  // namespace flashbench
