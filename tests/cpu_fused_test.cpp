#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include "attention_case.h"
#include "parallel.h"
#include "reference/catalogue.h"
#include "reference/cpu_fused_kernel.h"

namespace flashbench {
namespace {

class CpuFusedTest : public ::testing::Test {
 protected:
  std::unique_ptr<Implementation> fused_ = make_cpu_fused();
  DeviceInfo device_;
};

TEST_F(CpuFusedTest, IsRightOverShapesDtypesMasksAndLayouts) {
  expect_right_everywhere(*fused_);
}

TEST_F(CpuFusedTest, IsRightWithEveryInstructionSet) {
  // SetSupportedTargetsForTest(0) restores what the processor has.
  struct Restore {
    ~Restore() { hwy::SetSupportedTargetsForTest(0); }
  } restore;
  const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  EXPECT_FALSE(targets.empty());
  for (const std::int64_t target : targets) {
    hwy::SetSupportedTargetsForTest(target);
    SCOPED_TRACE(hwy::TargetName(target));
    for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
      AttentionCase(make_problem(1, 4, 2, 150, 131, 72, dtype, Mask::causal), Layout::gaps)
          .expect_right(*fused_);
    }
  }
}

TEST_F(CpuFusedTest, SkipsNothingAcrossManyTilesAndBlocks) {
  AttentionCase(make_problem(1, 2, 2, 1100, 1100, 16)).expect_right(*fused_);
  AttentionCase(make_problem(1, 2, 2, 1100, 1100, 16, Dtype::bf16, Mask::causal))
      .expect_right(*fused_);
  AttentionCase(make_problem(1, 4, 1, 900, 1300, 40, Dtype::f16, Mask::causal))
      .expect_right(*fused_);
}

TEST_F(CpuFusedTest, RowsThatSeeNoKeyAreZero) {
  AttentionCase empty(make_problem(1, 2, 1, 200, 10, 32, Dtype::f32, Mask::causal));
  empty.expect_right(*fused_);
  EXPECT_EQ(load_element(empty.o.bytes().data(), Dtype::f32, 0), 0.0);
  EXPECT_EQ(empty.lse[0], -std::numeric_limits<float>::infinity());
  EXPECT_NE(load_element(empty.o.bytes().data(), Dtype::f32, empty.o.view().at(0, 199, 0, 0)), 0.0);
}

TEST_F(CpuFusedTest, IsRightForLargeScores) {
  AttentionCase large(make_problem(1, 2, 2, 100, 700, 64));
  std::mt19937 generator = seeded(3);
  std::normal_distribution<float> normal;
  large.q.fill([&] { return 100.0F * normal(generator); });
  large.expect_right(*fused_);
  // Far beyond what exp could hold without the maximum subtracted.
  large.problem.scale = 10.0;
  large.expect_right(*fused_);
}

TEST_F(CpuFusedTest, PaddingIsNoMaximum) {
  // All scores far below 0, and a last tile that is no multiple of any register block.
  for (const std::int64_t n_kv : {1, 116, 123, 500}) {
    AttentionCase low(make_problem(1, 2, 1, 70, n_kv, 64));
    low.q.fill([] { return 10.0F; });
    std::mt19937 generator = seeded(5);
    std::normal_distribution<float> normal(-20.0F, 0.01F);
    low.k.fill([&] { return normal(generator); });
    low.expect_right(*fused_);
  }
}

TEST_F(CpuFusedTest, TheScaleDoesNotRoundTheScores) {
  // One channel holds a score of 2^20 common to all keys; the rest decides. Products with powers of
  // 2 are exact, so that only the scale's rounding could show.
  AttentionCase offset(make_problem(1, 1, 1, 40, 60, 8));
  offset.problem.scale = 0.3;
  std::mt19937 generator = seeded(6);
  std::uniform_int_distribution<int> small(-2, 2);
  offset.q.fill([&] { return static_cast<float>(small(generator)); });
  offset.k.fill([&] { return static_cast<float>(small(generator)); });
  for (std::int64_t n = 0; n < 40; ++n) {
    store_element(offset.q.bytes().data(), Dtype::f32, offset.q.view().at(0, n, 0, 0), 1024.0F);
  }
  for (std::int64_t n = 0; n < 60; ++n) {
    store_element(offset.k.bytes().data(), Dtype::f32, offset.k.view().at(0, n, 0, 0), 1024.0F);
  }
  PlainAttention truth =
      plain_attention(offset.problem, offset.operands(), fused_->arithmetic(offset.problem));
  for (double& tolerance : truth.tolerance) tolerance = 1e-5;
  for (double& tolerance : truth.lse_tolerance) tolerance = 0.1;
  offset.expect_output(*fused_, truth);
}

TEST_F(CpuFusedTest, IsRightWhenEveryTileRescales) {
  AttentionCase rising(make_problem(1, 1, 1, 50, 1000, 8));
  float next = 0.0F;
  rising.q.fill([] { return 1.0F; });
  rising.k.fill([&] { return next += 0.01F; });
  rising.expect_right(*fused_);
  rising.k.fill([&] { return next -= 0.01F; });
  rising.expect_right(*fused_);
}

TEST_F(CpuFusedTest, PassesOnNaN) {
  AttentionCase nan(make_problem(1, 1, 1, 100, 200, 16));
  const auto at = nan.k.view().at(0, 150, 0, 3);
  store_element(nan.k.bytes().data(), Dtype::f32, at, std::numeric_limits<float>::quiet_NaN());
  const HostWorkspace workspace(fused_->workspace_bytes(nan.problem, device_));
  CpuDevice cpu("test");
  fused_->plan(nan.problem, nan.operands(), workspace.data(), cpu).enqueue(nullptr);
  nan.o.for_each([&](std::int64_t i) {
    EXPECT_TRUE(std::isnan(load_element(nan.o.bytes().data(), Dtype::f32, i)));
  });
}

TEST_F(CpuFusedTest, WorkspaceDoesNotGrowWithTheSequence) {
  const auto bytes = [&](std::int64_t n) {
    return fused_->workspace_bytes(make_problem(1, 8, 8, n, n, 64), device_);
  };
  EXPECT_EQ(bytes(std::int64_t{1} << 20U), bytes(65536));
  EXPECT_LE(bytes(65536), std::int64_t{4} << 20U << (cpu_threads() > 2 ? 6U : 0U));
}

TEST_F(CpuFusedTest, ShapeCoversTheProblem) {
  for (const std::int64_t n : {1, 16, 17, 48, 1000, 100000}) {
    for (const std::int64_t d : {1, 64, 100, 4096}) {
      const FusedShape shape = fused_shape(make_problem(1, 8, 2, n, n, d), 2);
      EXPECT_EQ(shape.rows, 4 * n);
      EXPECT_GE(shape.padded_dim, d);
      EXPECT_EQ(shape.padded_dim % shape.key_step, 0);
      EXPECT_EQ(shape.block_rows % shape.strip_rows, 0);
      EXPECT_EQ(shape.strip_rows % shape.lanes, 0);
      EXPECT_GE(shape.tile_keys, shape.lanes);  // queries pass through the key tile's memory
      EXPECT_EQ(shape.tile_keys % shape.key_step, 0);
    }
  }
  // Short problems are cut finer, to keep every thread busy.
  EXPECT_GT(fused_shape(make_problem(1, 1, 1, 4096, 4096, 64), 1).block_rows,
            fused_shape(make_problem(1, 1, 1, 4096, 4096, 64), 64).block_rows);
}

TEST_F(CpuFusedTest, ModelCountsWhatIsComputed) {
  device_.l2_bytes = std::int64_t{1} << 20U;
  const Problem full = make_problem(1, 8, 8, 3072, 3072, 64);
  const StepModel model = fused_->model(full, device_)->at(0);
  EXPECT_DOUBLE_EQ(model.matrix_flops, full.flops());  // 3072 is a multiple of every strip
  EXPECT_DOUBLE_EQ(model.exps, full.exps());
  EXPECT_EQ(model.write_bytes, full.q_elements() * 4);
  // K and V of a head (1.5 MiB) do not fit the cache: every block of rows reads them again.
  const std::int64_t blocks = fused_shape(full, cpu_threads()).blocks();
  EXPECT_EQ(model.read_bytes, full.q_elements() * 4 + 2 * full.kv_elements() * 4 * blocks);
  device_.l2_bytes = std::int64_t{2} << 20U;
  EXPECT_EQ(fused_->model(full, device_)->at(0).read_bytes,
            (full.q_elements() + 2 * full.kv_elements()) * 4);
  // Causal: about half, never less than what is visible.
  Problem causal = full;
  causal.mask = Mask::causal;
  EXPECT_GE(fused_->model(causal, device_)->at(0).matrix_flops, causal.flops());
  EXPECT_LE(fused_->model(causal, device_)->at(0).matrix_flops, 1.05 * causal.flops());
}

}  // namespace
}  // namespace flashbench
