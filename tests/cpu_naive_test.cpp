#include <gtest/gtest.h>

#include "attention_case.h"
#include "error.h"
#include "reference/catalogue.h"
#include "reference/openblas.h"

namespace flashbench {
namespace {

class CpuNaiveTest : public ::testing::Test {
 protected:
  std::unique_ptr<Implementation> naive_ = make_cpu_naive();
  DeviceInfo device_;
};

TEST_F(CpuNaiveTest, IsRightOverShapesDtypesMasksAndLayouts) {
  expect_right_everywhere(*naive_);
}

TEST_F(CpuNaiveTest, IsRightAcrossSeveralRowAndKeyBlocks) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    AttentionCase(make_problem(1, 1, 1, 700, 1100, 24, dtype, Mask::causal), Layout::gaps)
        .expect_right(*naive_);
  }
}

TEST_F(CpuNaiveTest, RowsThatSeeNoKeyAreZero) {
  AttentionCase empty(make_problem(1, 2, 1, 20, 10, 32, Dtype::bf16, Mask::causal));
  empty.expect_right(*naive_);
  EXPECT_EQ(load_element(empty.o.bytes().data(), Dtype::bf16, 0), 0.0);
  EXPECT_EQ(empty.lse[0], -std::numeric_limits<float>::infinity());
}

TEST_F(CpuNaiveTest, IsRightForLargeScores) {
  AttentionCase large(make_problem(1, 2, 2, 60, 100, 64));
  std::mt19937 generator = seeded(3);
  std::normal_distribution<float> normal;
  large.q.fill([&] { return 100.0F * normal(generator); });
  large.expect_right(*naive_);
}

TEST_F(CpuNaiveTest, HasThreeStepsThatGoThroughMemory) {
  AttentionCase small(make_problem(1, 2, 2, 33, 65, 16));
  std::vector<float> workspace(2UL * 33 * 65);
  ASSERT_EQ(naive_->workspace_bytes(small.problem, device_),
            static_cast<std::int64_t>(workspace.size() * sizeof(float)));
  CpuDevice cpu("test");
  const Plan plan = naive_->plan(small.problem, small.operands(), workspace.data(), cpu);
  ASSERT_EQ(plan.steps.size(), 3U);
  EXPECT_EQ(plan.steps[0].name, "QKᵀ");
  EXPECT_EQ(plan.steps[1].name, "softmax");
  EXPECT_EQ(plan.steps[2].name, "PV");
  plan.steps[0].enqueue(nullptr);
  double score = 0.0;  // of query 5 and key 60 of head 1: line 33 + 5
  for (std::int64_t c = 0; c < 16; ++c) {
    score += load_element(small.q.bytes().data(), Dtype::f32, small.q.view().at(0, 5, 1, c)) *
             load_element(small.k.bytes().data(), Dtype::f32, small.k.view().at(0, 60, 1, c));
  }
  EXPECT_NEAR(static_cast<double>(workspace[38UL * 65 + 60]), score / 4.0, 1e-5);
  plan.steps[1].enqueue(nullptr);
  double sum = 0.0;
  for (std::size_t j = 0; j < 65; ++j) sum += static_cast<double>(workspace[38UL * 65 + j]);
  EXPECT_NEAR(sum, 1.0, 1e-5);
}

TEST_F(CpuNaiveTest, WorkspaceIsTheScoreMatrices) {
  const auto bytes = [&](std::int64_t n, Dtype dtype) {
    return naive_->workspace_bytes(make_problem(2, 8, 4, n, 2 * n, 64, dtype), device_);
  };
  EXPECT_EQ(bytes(1024, Dtype::f32), 16LL * 1024 * 2048 * 4);
  EXPECT_EQ(bytes(100000, Dtype::f32), 16LL * 100000 * 200000 * 4);
  // What the 16-bit dtypes need beside them does not grow with n_q.
  const std::int64_t beside = bytes(4096, Dtype::bf16) - 16LL * 4096 * 8192 * 2;
  EXPECT_GT(beside, 0);
  EXPECT_LT(beside, 16LL * 4096 * 8192 * 2 / 50);
}

TEST_F(CpuNaiveTest, RefusesWhatOpenBlasCannotCount) {
  const std::int64_t beyond = std::int64_t{1} << 31U;
  EXPECT_EQ(naive_->unsupported(make_problem(1, 1, 1, 1, beyond - 1, 1), device_), std::nullopt);
  for (const Problem& problem :
       {make_problem(1, 1, 1, 1, beyond, 1), make_problem(1, 1, 1, beyond, 1, 1),
        make_problem(1, 1, 1, 1, 1, beyond)}) {
    const auto reason = naive_->unsupported(problem, device_);
    ASSERT_TRUE(reason);
    EXPECT_NE(reason->find("32 bits"), std::string::npos);
  }
}

TEST_F(CpuNaiveTest, RefusesOverlappingRows) {
  AttentionCase overlapping(make_problem(1, 1, 1, 8, 8, 16));
  Operands operands = overlapping.operands();
  operands.k.stride[1] = 0;  // one key, repeated
  CpuDevice cpu("test");
  const HostWorkspace workspace(naive_->workspace_bytes(overlapping.problem, device_));
  EXPECT_THROW(naive_->plan(overlapping.problem, operands, workspace.data(), cpu), Error);
}

TEST_F(CpuNaiveTest, ModelPutsTheScoresInMemoryWhereTheyDoNotFitTheCache) {
  const Problem problem = make_problem(1, 8, 8, 1024, 1024, 64);  // 32 MiB of scores
  device_.l2_bytes = std::int64_t{16} << 20U;
  const std::int64_t scores = problem.score_elements() * 4;
  const std::int64_t operand = problem.q_elements() * 4;
  auto steps = *naive_->model(problem, device_);
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[0].read_bytes, 2 * operand);
  EXPECT_EQ(steps[0].write_bytes, scores);
  EXPECT_EQ(steps[1].read_bytes, scores);
  EXPECT_EQ(steps[1].write_bytes, scores);
  EXPECT_EQ(steps[2].read_bytes, scores + operand);
  EXPECT_EQ(steps[2].write_bytes, operand);
  EXPECT_DOUBLE_EQ(steps[0].matrix_flops + steps[2].matrix_flops, problem.flops());
  EXPECT_DOUBLE_EQ(steps[1].exps, problem.exps());
  device_.l2_bytes = std::int64_t{64} << 20U;
  steps = *naive_->model(problem, device_);
  EXPECT_EQ(steps[0].write_bytes + steps[1].read_bytes + steps[1].write_bytes, 0);
  EXPECT_EQ(steps[2].read_bytes, operand);
}

TEST(OpenBlasTest, NamesItsKernels) {
  EXPECT_EQ(openblas().description.rfind("OpenBLAS ", 0), 0U) << openblas().description;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vl") && getenv("OPENBLAS_CORETYPE") == nullptr) {
    EXPECT_NE(openblas().description.find("SkylakeX"), std::string::npos) << openblas().description;
  }
#endif
}

}  // namespace
}  // namespace flashbench
