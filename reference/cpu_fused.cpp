#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "parallel.h"
#include "reference/catalogue.h"
#include "reference/cpu_fused_kernel.h"
#include "reference/cpu_traffic.h"
#include "reference/scratch_loop.h"

namespace flashbench {
namespace {

/// Tiled attention with online softmax: the scores live in a core's cache and are never stored. f32
/// arithmetic.
class CpuFused : public Implementation {
 public:
  std::string_view name() const override { return "cpu-fused"; }
  std::string_view description() const override {
    return "tiled, online softmax in f32, SIMD, all cores; scores never leave a core's cache";
  }
  DeviceKind device() const override { return DeviceKind::cpu; }
  Kind kind() const override { return Kind::fused; }

  std::optional<std::string> unsupported(const Problem& /*problem*/,
                                         const DeviceInfo& /*device*/) const override {
    return std::nullopt;
  }

  Arithmetic arithmetic(const Problem& /*problem*/) const override {
    return {.scores_in_dtype = false,
            .weights_in_dtype = false,
            .weights_normalised = false,
            .tensor_core_sums = false};
  }

  std::int64_t workspace_bytes(const Problem& problem,
                               const DeviceInfo& /*device*/) const override {
    return scratch_bytes(fused_shape(problem, cpu_threads()).scratch_floats()) * cpu_threads();
  }

  std::optional<std::vector<StepModel>> model(const Problem& problem,
                                              const DeviceInfo& device) const override {
    const FusedShape shape = fused_shape(problem, cpu_threads());
    // Rows and keys as computed: whole strips, each up to the last key that any of its rows sees.
    double pairs = 0;
    const std::int64_t group = problem.heads / problem.kv_heads;
    for (std::int64_t first = 0; first < shape.rows; first += shape.strip_rows) {
      const std::int64_t rows = std::min(shape.strip_rows, shape.rows - first);
      const std::int64_t computed_rows = (rows + shape.lanes - 1) / shape.lanes * shape.lanes;
      pairs += static_cast<double>(computed_rows) *
               static_cast<double>(problem.visible_keys((first + rows - 1) / group));
    }
    pairs *= static_cast<double>(problem.batch) * static_cast<double>(problem.kv_heads);
    StepModel step;
    step.name = "fused";
    step.unit = MatrixUnit::fma_f32;
    step.matrix_flops = 4.0 * static_cast<double>(shape.padded_dim) * pairs;
    step.exps = pairs;
    // Every block of rows passes over the keys and values of its head.
    const std::int64_t size = size_of(problem.dtype);
    step.read_bytes =
        problem.q_elements() * size + reread_bytes(2 * problem.kv_elements() * size,
                                                   2 * problem.n_kv * problem.head_dim * size,
                                                   shape.blocks(), device);
    step.write_bytes = problem.q_elements() * size;
    return std::vector{step};
  }

  Plan plan(const Problem& problem, const Operands& operands, void* workspace,
            Device& /*device*/) const override {
    const FusedShape shape = fused_shape(problem, cpu_threads());
    Plan plan;
    plan.choices["tile"] = fmt::format("{}x{}", shape.block_rows, shape.tile_keys);
    plan.choices["lanes"] = fmt::format("{}", shape.lanes);
    plan.steps.push_back({"fused", [problem, operands, shape, workspace](Stream /*stream*/) {
                            run(problem, operands, shape, workspace);
                          }});
    return plan;
  }

 private:
  static void run(const Problem& problem, const Operands& operands, const FusedShape& shape,
                  void* workspace) {
    const std::int64_t blocks = shape.blocks();
    const std::int64_t heads = problem.batch * problem.kv_heads;
    for_each_with_scratch(heads * blocks, workspace, scratch_bytes(shape.scratch_floats()),
                          [&](std::int64_t item, float* scratch) {
                            // Head by head, so that threads share its keys in the last-level cache;
                            // of a causal head the longest rows first, so that short ones fill the
                            // end.
                            const std::int64_t head = item / blocks;
                            const std::int64_t block = blocks - 1 - item % blocks;
                            fused_block(problem, operands, shape, head / problem.kv_heads,
                                        head % problem.kv_heads, block, scratch);
                          });
  }
};

}  // namespace

std::unique_ptr<Implementation> make_cpu_fused() {
  return std::make_unique<CpuFused>();
}

}  // namespace flashbench
