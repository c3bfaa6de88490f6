// lowrank: Linformer's low-rank attention (Wang, Li, Khabsa, Fang and Ma 2020) with the projection
// that needs no training, the mean; an approximation. Keys and values are averaged over kRank
// segments of the sequence, whose lengths differ by one at most, and queries attend to the means:
// work grows with N. Exact where n_kv <= kRank, where the means are the keys and values themselves.
//
// The means are kept in the problem's dtype, so that the queries' step is attention like any other:
// fused-simt's.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/catalogue.h"
#include "kernels/common/families.h"
#include "kernels/common/mean_rows.cuh"
#include "traffic.h"

namespace flashbench {
namespace {

constexpr std::int64_t kRank = 64;

template <class Element>
Enqueue pool(std::string_view name, const Problem& problem, const MeanArguments& args) {
  return mean_rows<Element, Element>(name, problem, args);
}

Enqueue pool(std::string_view name, const Problem& problem, const MeanArguments& args) {
  switch (problem.dtype) {
    case Dtype::f16: return pool<__half>(name, problem, args);
    case Dtype::bf16: return pool<__nv_bfloat16>(name, problem, args);
    case Dtype::f32: break;
  }
  return pool<float>(name, problem, args);
}

class Lowrank final : public SimtImplementation {
 public:
  std::string_view name() const override { return "lowrank"; }
  std::string_view description() const override {
    return "keys and values averaged over 64 segments; exact up to 64 keys; no causal mask";
  }
  Kind kind() const override { return Kind::approximate; }

  std::optional<std::string> unsupported(const Problem& problem,
                                         const DeviceInfo& device) const override {
    if (problem.mask == Mask::causal)
      return "a mean of keys mixes what a causal row sees with what it does not";
    return SimtImplementation::unsupported(problem, device);
  }

  std::int64_t workspace_bytes(const Problem& problem,
                               const DeviceInfo& /*device*/) const override {
    return 2 * bytes_of_means(problem);
  }

  std::optional<std::vector<StepModel>> model(const Problem& problem,
                                              const DeviceInfo& device) const override {
    const std::int64_t means = 2 * bytes_of_means(problem);
    const bool handed_on = means <= cache_retention_bytes(device);  // through the cache
    auto steps = attention_->model(pooled(problem), device);
    if (handed_on) steps->front().read_bytes -= means;
    steps->insert(steps->begin(), {.name = "pool",
                                   .read_bytes = 2 * problem.kv_elements() * size_of(problem.dtype),
                                   .write_bytes = handed_on ? 0 : means});
    return steps;
  }

  Plan plan(const Problem& problem, const Operands& operands, void* workspace,
            Device& device) const override {
    const Problem short_problem = pooled(problem);
    const std::int64_t segments = short_problem.n_kv;
    Operands short_operands = operands;
    short_operands.k = contiguous(workspace, problem.dtype, problem.batch, segments,
                                  problem.kv_heads, problem.head_dim);
    short_operands.v = short_operands.k;
    short_operands.v.data = static_cast<char*>(workspace) + bytes_of_means(problem);

    MeanArguments means{};
    means.rows = problem.n_kv;
    means.heads = problem.kv_heads;
    means.segments = {segments, problem.n_kv / segments, problem.n_kv % segments};
    means.head_dim = static_cast<int>(problem.head_dim);
    means.from = view_of(operands.k);
    means.to = view_of(short_operands.k);
    const Enqueue pool_keys = pool(name(), problem, means);
    means.from = view_of(operands.v);
    means.to = view_of(short_operands.v);
    const Enqueue pool_values = pool(name(), problem, means);

    Plan plan = attention_->plan(short_problem, short_operands, nullptr, device);
    plan.steps.insert(plan.steps.begin(), {"pool", [=](Stream stream) {
                                             pool_keys(stream);
                                             pool_values(stream);
                                           }});
    plan.choices["rank"] = std::to_string(segments);
    return plan;
  }

 private:
  /// The problem that the queries' step solves.
  static Problem pooled(const Problem& problem) {
    Problem result = problem;
    result.n_kv = std::min(kRank, problem.n_kv);
    return result;
  }
  /// Of the keys' means, and of the values'; a multiple of 16, as head dims are of 8.
  static std::int64_t bytes_of_means(const Problem& problem) {
    return checked_multiply(pooled(problem).kv_elements(), size_of(problem.dtype));
  }

  std::unique_ptr<Implementation> attention_ = make_fused_simt();
};

}  // namespace

std::unique_ptr<Implementation> make_lowrank() {
  return std::make_unique<Lowrank>();
}

}  // namespace flashbench
