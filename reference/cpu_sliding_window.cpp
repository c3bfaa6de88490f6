#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "reference/approximate.h"
#include "reference/catalogue.h"
#include "reference/cpu_traffic.h"
#include "reference/scratch_loop.h"
#include "reference/subset_attention.h"

namespace flashbench {
namespace {

/// Local attention (Longformer's without global tokens, Beltagy et al. 2020): a query sees the keys
/// less than kWindow away from its own position, which is bottom-right aligned like the causal
/// mask; a causal one only those before it. Exact where n_kv <= kWindow.
class CpuSlidingWindow : public CpuApproximate {
 public:
  std::string_view name() const override { return "cpu-sliding-window"; }
  std::string_view description() const override {
    return "softmax over the keys less than 256 positions away; exact up to 256 keys";
  }

  std::int64_t workspace_bytes(const Problem& problem,
                               const DeviceInfo& /*device*/) const override {
    return bytes_per_thread(problem) * cpu_threads();
  }

  std::optional<std::vector<StepModel>> model(const Problem& problem,
                                              const DeviceInfo& /*device*/) const override {
    const std::int64_t size = size_of(problem.dtype);
    double pairs = 0;
    double computed = 0;
    for (std::int64_t row = 0; row < problem.n_q; row += kQueryBlock) {
      const std::int64_t rows = std::min(kQueryBlock, problem.n_q - row);
      const auto [first, last] = block_window(problem, row, rows);
      computed += static_cast<double>(rows * (last - first));
      for (std::int64_t r = 0; r < rows; ++r) {
        const auto [from, to] = window(problem, row + r);
        pairs += static_cast<double>(to - from);
      }
    }
    const double heads = static_cast<double>(problem.batch) * static_cast<double>(problem.heads);
    // Neighbouring blocks share their keys in the cache, so each is read once.
    return std::vector<StepModel>{
        {"window", (problem.q_elements() + 2 * problem.kv_elements()) * size,
         problem.q_elements() * size, MatrixUnit::fma_f32,
         4.0 * heads * computed * static_cast<double>(problem.head_dim), heads * pairs}};
  }

  Plan plan(const Problem& problem, const Operands& operands, void* workspace,
            Device& /*device*/) const override {
    Plan plan;
    plan.choices["window"] = fmt::format("{}", kWindow);
    plan.steps.push_back({"window", [problem, operands, workspace](Stream /*stream*/) {
                            for_each_with_scratch(
                                query_blocks(problem), workspace, bytes_per_thread(problem),
                                [&](std::int64_t index, float* scratch) {
                                  attend(problem, operands, query_block(problem, index), scratch);
                                });
                          }});
    return plan;
  }

 private:
  static constexpr std::int64_t kWindow = 256;
  static constexpr std::int64_t kMaxKeys = 2 * kWindow - 1 + kQueryBlock - 1;  // of a block

  using Range = std::pair<std::int64_t, std::int64_t>;

  /// The keys that a row sees.
  static Range window(const Problem& problem, std::int64_t row) {
    const std::int64_t own =
        std::clamp<std::int64_t>(row + problem.n_kv - problem.n_q, 0, problem.n_kv - 1);
    const std::int64_t last = std::min(problem.visible_keys(row), own + kWindow);
    return {std::min(std::max<std::int64_t>(own - kWindow + 1, 0), last), last};
  }

  static Range block_window(const Problem& problem, std::int64_t row, std::int64_t rows) {
    return {window(problem, row).first, window(problem, row + rows - 1).second};
  }

  static std::int64_t bytes_per_thread(const Problem& problem) {
    return scratch_bytes(subset_floats(problem, std::min(kMaxKeys, problem.n_kv)));
  }

  static void attend(const Problem& problem, const Operands& operands, const QueryBlock& block,
                     float* scratch) {
    const auto [first, last] = block_window(problem, block.row, block.rows);
    std::array<std::int64_t, kMaxKeys> keys{};
    std::iota(keys.begin(), keys.begin() + (last - first), first);
    attend_subset(
        problem, operands, block, std::span(keys).first(static_cast<std::size_t>(last - first)),
        [&, from = first](std::int64_t row) {
          const auto [begin, end] = window(problem, row);
          return Range{std::max<std::int64_t>(begin - from, 0),
                       std::max<std::int64_t>(end - from, 0)};
        },
        scratch);
  }
};

}  // namespace

std::unique_ptr<Implementation> make_cpu_sliding_window() {
  return std::make_unique<CpuSlidingWindow>();
}

}  // namespace flashbench
