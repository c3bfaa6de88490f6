#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <span>

#include "reference/approximate.h"
#include "reference/catalogue.h"
#include "reference/cpu_traffic.h"
#include "reference/scratch_loop.h"
#include "reference/subset_attention.h"

namespace flashbench {
namespace {

/// Linformer's low-rank attention (Wang et al. 2020) with the projection that needs no training,
/// the mean: keys and values are averaged over kRank segments of the sequence, and queries attend
/// to the means. Exact where n_kv <= kRank.
class CpuLowrank : public CpuApproximate {
 public:
  std::string_view name() const override { return "cpu-lowrank"; }
  std::string_view description() const override {
    return "keys and values averaged over 64 segments; exact up to 64 keys; no causal "
           "mask";
  }

  std::optional<std::string> unsupported(const Problem& problem,
                                         const DeviceInfo& device) const override {
    if (problem.mask == Mask::causal)
      return "a mean of keys mixes what a causal row sees with what it does not";
    return CpuApproximate::unsupported(problem, device);
  }

  std::int64_t workspace_bytes(const Problem& problem,
                               const DeviceInfo& /*device*/) const override {
    return scratch_bytes(2 * pooled_floats(problem)) + bytes_per_thread(problem) * cpu_threads();
  }

  std::optional<std::vector<StepModel>> model(const Problem& problem,
                                              const DeviceInfo& device) const override {
    const std::int64_t size = size_of(problem.dtype);
    const std::int64_t pooled = handed_on_bytes(2 * pooled_floats(problem) * 4, device);
    const double pairs = static_cast<double>(problem.rows()) * static_cast<double>(rank(problem));
    return std::vector<StepModel>{
        {"pool", 2 * problem.kv_elements() * size, pooled, MatrixUnit::none, 0.0, 0.0},
        {"attend", problem.q_elements() * size + pooled, problem.q_elements() * size,
         MatrixUnit::fma_f32, 4.0 * pairs * static_cast<double>(problem.head_dim), pairs}};
  }

  Plan plan(const Problem& problem, const Operands& operands, void* workspace,
            Device& /*device*/) const override {
    auto* means = static_cast<float*>(workspace);
    void* scratch = static_cast<char*>(workspace) + scratch_bytes(2 * pooled_floats(problem));
    Operands pooled = operands;
    pooled.k = contiguous(means, Dtype::f32, problem.batch, rank(problem), problem.kv_heads,
                          problem.head_dim);
    pooled.v = pooled.k;
    pooled.v.data = means + pooled_floats(problem);
    Plan plan;
    plan.choices["rank"] = fmt::format("{}", rank(problem));
    plan.steps.push_back({"pool", [problem, operands, pooled](Stream /*stream*/) {
                            pool(problem, operands, pooled);
                          }});
    plan.steps.push_back({"attend", [problem, pooled, scratch](Stream /*stream*/) {
                            for_each_with_scratch(
                                query_blocks(problem), scratch, bytes_per_thread(problem),
                                [&](std::int64_t index, float* own) {
                                  attend(problem, pooled, query_block(problem, index), own);
                                });
                          }});
    return plan;
  }

 private:
  static constexpr std::int64_t kRank = 64;

  static std::int64_t rank(const Problem& problem) { return std::min(kRank, problem.n_kv); }
  static std::int64_t pooled_floats(const Problem& problem) {
    return checked_multiply(problem.batch * problem.kv_heads * rank(problem), problem.head_dim);
  }
  static std::int64_t bytes_per_thread(const Problem& problem) {
    return scratch_bytes(subset_floats(problem, rank(problem)));
  }

  static void pool(const Problem& problem, const Operands& operands, const Operands& pooled) {
    const std::int64_t segments = rank(problem);
    parallel_for(problem.batch * problem.kv_heads * segments, [&](std::int64_t i) {
      const std::int64_t segment = i % segments;
      const std::int64_t batch = i / segments / problem.kv_heads;
      const std::int64_t head = i / segments % problem.kv_heads;
      // Lengths differ by one at most.
      const std::int64_t longer = problem.n_kv % segments;
      const std::int64_t first = segment * (problem.n_kv / segments) + std::min(segment, longer);
      const std::int64_t rows = problem.n_kv / segments + (segment < longer ? 1 : 0);
      const std::int64_t to = pooled.k.at(batch, segment, head, 0);
      mean_of_rows(operands.k, batch, first, rows, head, static_cast<float*>(pooled.k.data) + to);
      mean_of_rows(operands.v, batch, first, rows, head, static_cast<float*>(pooled.v.data) + to);
    });
  }

  static void attend(const Problem& problem, const Operands& pooled, const QueryBlock& block,
                     float* scratch) {
    std::array<std::int64_t, kRank> segments{};
    std::iota(segments.begin(), segments.end(), 0);
    const std::int64_t count = rank(problem);
    attend_subset(
        problem, pooled, block, std::span(segments).first(static_cast<std::size_t>(count)),
        [count](std::int64_t /*row*/) { return std::pair<std::int64_t, std::int64_t>(0, count); },
        scratch);
  }
};

}  // namespace

std::unique_ptr<Implementation> make_cpu_lowrank() {
  return std::make_unique<CpuLowrank>();
}

}  // namespace flashbench
