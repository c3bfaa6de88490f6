#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "reference/approximate.h"
#include "reference/catalogue.h"
#include "reference/cpu_rows.h"
#include "reference/linear_state.h"
#include "reference/scratch_loop.h"

namespace flashbench {
namespace {

/// Linear attention (Katharopoulos et al. 2020): exp(q k) becomes phi(q) phi(k) with phi = elu + 1,
/// so that sums over the keys, S = sum phi(k) (v, 1), replace them: O(N) work. Causal: the sums run
/// along with the rows. The scale is shared between q and k by its root. No softmax at any length,
/// hence never exact (but for one key).
class CpuLinear : public CpuApproximate {
 public:
  std::string_view name() const override { return "cpu-linear"; }
  std::string_view description() const override {
    return "kernel feature map elu + 1 instead of the softmax; work grows with N";
  }

  std::optional<std::string> unavailable(const DeviceInfo& /*device*/) const override {
    return std::nullopt;
  }

  std::int64_t workspace_bytes(const Problem& problem,
                               const DeviceInfo& /*device*/) const override {
    return bytes_per_thread(problem) * cpu_threads();
  }

  std::optional<std::vector<StepModel>> model(const Problem& problem,
                                              const DeviceInfo& /*device*/) const override {
    const std::int64_t size = size_of(problem.dtype);
    const double dim = static_cast<double>(problem.head_dim);
    const double heads = static_cast<double>(problem.batch) * static_cast<double>(problem.heads);
    const double rows = heads * static_cast<double>(problem.n_q + problem.n_kv);
    return std::vector<StepModel>{{"linear",
                                   (problem.q_elements() + 2 * problem.kv_elements()) * size,
                                   problem.q_elements() * size, MatrixUnit::fma_f32,
                                   2.0 * rows * dim * (dim + 1.0), rows * dim}};
  }

  Plan plan(const Problem& problem, const Operands& operands, void* workspace,
            Device& /*device*/) const override {
    Plan plan;
    plan.choices["features"] = "elu + 1";
    plan.steps.push_back({"linear", [problem, operands, workspace](Stream /*stream*/) {
                            for_each_with_scratch(problem.batch * problem.heads, workspace,
                                                  bytes_per_thread(problem),
                                                  [&](std::int64_t head, float* scratch) {
                                                    attend(problem, operands, head / problem.heads,
                                                           head % problem.heads, scratch);
                                                  });
                          }});
    return plan;
  }

 private:
  static std::int64_t bytes_per_thread(const Problem& problem) {
    const std::int64_t columns = problem.head_dim + 1;
    return scratch_bytes(checked_multiply(problem.head_dim, columns) + 2 * problem.head_dim +
                         2 * columns);
  }

  static void attend(const Problem& problem, const Operands& operands, std::int64_t batch,
                     std::int64_t head, float* scratch) {
    const std::int64_t dim = problem.head_dim;
    const std::int64_t columns = dim + 1;  // the last one sums phi(k): the normaliser
    const std::int64_t kv_head = head / (problem.heads / problem.kv_heads);
    const auto root = static_cast<float>(std::sqrt(problem.scale));
    float* state = scratch;  // [dim, columns]
    float* line = state + dim * columns;
    float* phi = line + dim;
    float* value = phi + dim;  // [columns]
    float* out = value + columns;
    std::fill_n(state, dim * columns, 0.0F);
    value[dim] = 1.0F;
    std::int64_t seen = 0;
    for (std::int64_t row = 0; row < problem.n_q; ++row) {
      for (; seen < problem.visible_keys(row); ++seen) {
        load_matrix(operands.k.data, operands.k.dtype, operands.k.at(batch, seen, kv_head, 0), 0, 1,
                    dim, line);
        linear_features(line, dim, root, phi);
        load_matrix(operands.v.data, operands.v.dtype, operands.v.at(batch, seen, kv_head, 0), 0, 1,
                    dim, value);
        add_outer_product(phi, value, dim, columns, state);
      }
      load_matrix(operands.q.data, operands.q.dtype, operands.q.at(batch, row, head, 0), 0, 1, dim,
                  line);
      linear_features(line, dim, root, phi);
      times_state(phi, state, dim, columns, out);
      const float sum = out[dim];
      for (std::int64_t c = 0; c < dim; ++c) out[c] = seen == 0 ? 0.0F : out[c] / sum;
      store_matrix(out, 1, dim, operands.o.data, operands.o.dtype,
                   operands.o.at(batch, row, head, 0), 0);
      if (operands.lse != nullptr) {
        operands.lse[(batch * problem.heads + head) * problem.n_q + row] =
            seen == 0 ? -std::numeric_limits<float>::infinity() : std::log(sum);
      }
    }
  }
};

}  // namespace

std::unique_ptr<Implementation> make_cpu_linear() {
  return std::make_unique<CpuLinear>();
}

}  // namespace flashbench
