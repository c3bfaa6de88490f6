// What the CUDA implementations say of themselves, which needs no device.

#include "kernels/catalogue.h"

#include <gtest/gtest.h>

#include "admission.h"

namespace flashbench {
namespace {

DeviceInfo hopper() {
  DeviceInfo device;
  device.kind = DeviceKind::cuda;
  device.compute_capability = 90;
  device.sm_count = 132;
  device.l2_bytes = std::int64_t{60} << 20U;
  device.shared_memory_per_block = std::int64_t{227} * 1024;
  return device;
}

Problem long_problem(Mask mask) {
  return {1, 16, 4, 16384, 16384, 128, Dtype::bf16, mask, default_scale(128)};
}

TEST(CudaCatalogueTest, ApproximationsCostAFractionOfAttention) {
  int approximate = 0;
  for (const auto& implementation : cuda_catalogue()) {
    if (implementation->kind() != Kind::approximate) continue;
    ++approximate;
    for (const Mask mask : {Mask::none, Mask::causal}) {
      const Problem problem = long_problem(mask);
      if (implementation->unsupported(problem, hopper())) continue;
      SCOPED_TRACE(std::string(implementation->name()) + ", " + problem.to_string());
      EXPECT_LT(implementation->workspace_bytes(problem, hopper()), problem.operand_bytes());
      const auto steps = implementation->model(problem, hopper());
      ASSERT_TRUE(steps.has_value());
      double flops = 0.0;
      std::int64_t read = 0;
      std::int64_t written = 0;
      for (const StepModel& step : *steps) {
        flops += step.matrix_flops;
        read += step.read_bytes;
        written += step.write_bytes;
      }
      EXPECT_GT(flops, 0.0);
      EXPECT_LT(flops, problem.flops() / 8);
      EXPECT_GE(read, (problem.q_elements() + 2 * problem.kv_elements()) * 2);
      EXPECT_GE(written, problem.q_elements() * 2);
    }
  }
  EXPECT_EQ(approximate, 4);
}

TEST(CudaCatalogueTest, ApproximationsAreNeverTheBestOfAnExactKind) {
  const Catalogue catalogue = cuda_catalogue();
  for (const char* kind : {"naive", "fused"}) {
    for (const Implementation* best :
         resolve_implementations({kind}, catalogue, long_problem(Mask::causal), hopper())) {
      EXPECT_NE(best->kind(), Kind::approximate) << kind;
    }
  }
}

}  // namespace
}  // namespace flashbench
