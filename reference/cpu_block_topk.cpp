#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <span>

#include "reference/approximate.h"
#include "reference/catalogue.h"
#include "reference/cpu_traffic.h"
#include "reference/scratch_loop.h"
#include "reference/subset_attention.h"

namespace flashbench {
namespace {

/// Block-sparse attention that chooses its blocks by the data (as in Quest, Tang et al. 2024, and
/// MInference, Jiang et al. 2024, simplified): a block of 64 queries keeps the kKept blocks of 64
/// keys whose mean has the largest product with the queries' mean. Under a causal mask the blocks
/// at the diagonal are always kept, so that every row that sees a key keeps one. Exact where there
/// are no more than kKept blocks.
class CpuBlockTopk : public CpuApproximate {
 public:
  std::string_view name() const override { return "cpu-block-topk"; }
  std::string_view description() const override {
    return "softmax over the 8 blocks of 64 keys with the largest mean score; exact "
           "up to 512 keys";
  }

  std::int64_t workspace_bytes(const Problem& problem,
                               const DeviceInfo& /*device*/) const override {
    return scratch_bytes(pooled_floats(problem)) + bytes_per_thread(problem) * cpu_threads();
  }

  std::optional<std::vector<StepModel>> model(const Problem& problem,
                                              const DeviceInfo& device) const override {
    const std::int64_t size = size_of(problem.dtype);
    const std::int64_t kept_keys = std::min(kKept * kKeyBlock, problem.n_kv);
    const std::int64_t pooled = handed_on_bytes(pooled_floats(problem) * 4, device);
    const double rows = static_cast<double>(problem.rows());
    const double dim = static_cast<double>(problem.head_dim);
    // Every block of queries reads its own choice: from the cache where all of a head fits it.
    const std::int64_t head_bytes = 2 * problem.n_kv * problem.head_dim * size;
    const std::int64_t chosen_bytes =
        head_bytes <= device.l2_bytes
            ? 2 * problem.kv_elements() * size
            : checked_multiply(query_blocks(problem), 2 * kept_keys * problem.head_dim * size);
    const double ranked =
        static_cast<double>(query_blocks(problem)) * static_cast<double>(key_blocks(problem)) * dim;
    return std::vector<StepModel>{
        {"pool", problem.kv_elements() * size, pooled, MatrixUnit::none, 0.0, 0.0},
        {"attend", problem.q_elements() * size + pooled + chosen_bytes, problem.q_elements() * size,
         MatrixUnit::fma_f32, 2.0 * ranked + 4.0 * rows * static_cast<double>(kept_keys) * dim,
         rows * static_cast<double>(kept_keys)}};
  }

  Plan plan(const Problem& problem, const Operands& operands, void* workspace,
            Device& /*device*/) const override {
    auto* pooled = static_cast<float*>(workspace);
    void* scratch = static_cast<char*>(workspace) + scratch_bytes(pooled_floats(problem));
    Plan plan;
    plan.choices["blocks"] = fmt::format("{} of {} keys", kKept, kKeyBlock);
    plan.steps.push_back({"pool", [problem, operands, pooled](Stream /*stream*/) {
                            pool(problem, operands, pooled);
                          }});
    plan.steps.push_back({"attend", [problem, operands, pooled, scratch](Stream /*stream*/) {
                            for_each_with_scratch(query_blocks(problem), scratch,
                                                  bytes_per_thread(problem),
                                                  [&](std::int64_t index, float* own) {
                                                    attend(problem, operands, pooled,
                                                           query_block(problem, index), own);
                                                  });
                          }});
    return plan;
  }

 private:
  static constexpr std::int64_t kKeyBlock = 64;
  static constexpr std::int64_t kKept = 8;

  static std::int64_t key_blocks(const Problem& problem) {
    return (problem.n_kv + kKeyBlock - 1) / kKeyBlock;
  }

  /// The keys' means: [batch, kv_heads, key_blocks, head_dim].
  static std::int64_t pooled_floats(const Problem& problem) {
    return checked_multiply(problem.batch * problem.kv_heads * key_blocks(problem),
                            problem.head_dim);
  }

  static std::int64_t bytes_per_thread(const Problem& problem) {
    return scratch_bytes(subset_floats(problem, std::min(kKept * kKeyBlock, problem.n_kv)) +
                         key_blocks(problem) + problem.head_dim);
  }

  static void pool(const Problem& problem, const Operands& operands, float* pooled) {
    const std::int64_t blocks = key_blocks(problem);
    parallel_for(problem.batch * problem.kv_heads * blocks, [&](std::int64_t i) {
      const std::int64_t key = i % blocks * kKeyBlock;
      const std::int64_t head = i / blocks;
      mean_of_rows(operands.k, head / problem.kv_heads, key,
                   std::min(kKeyBlock, problem.n_kv - key), head % problem.kv_heads,
                   pooled + i * problem.head_dim);
    });
  }

  static void attend(const Problem& problem, const Operands& operands, const float* pooled,
                     const QueryBlock& block, float* scratch) {
    const std::int64_t dim = problem.head_dim;
    const std::int64_t kv_head = block.head / (problem.heads / problem.kv_heads);
    float* mean = scratch;
    float* scores = mean + dim;
    mean_of_rows(operands.q, block.batch, block.row, block.rows, block.head, mean);
    const std::int64_t last_key = problem.visible_keys(block.row + block.rows - 1);
    // The blocks that any row sees, and from which of them on every block must be kept.
    const std::int64_t seen = (last_key + kKeyBlock - 1) / kKeyBlock;
    const std::int64_t diagonal =
        problem.mask == Mask::causal
            ? std::max<std::int64_t>(problem.visible_keys(block.row) - 1, 0) / kKeyBlock
            : seen;
    if (seen > 0) {
      const float* head =
          pooled + (block.batch * problem.kv_heads + kv_head) * key_blocks(problem) * dim;
      openblas().sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, 1, static_cast<blasint>(seen),
                       static_cast<blasint>(dim), 1.0F, mean, static_cast<blasint>(dim), head,
                       static_cast<blasint>(dim), 0.0F, scores, static_cast<blasint>(seen));
    }
    // Between -infinity, which marks what has been taken, and infinity, which marks the diagonal;
    // a product that overflowed into a NaN ranks last.
    constexpr float kMost = std::numeric_limits<float>::max();
    for (std::int64_t block_index = 0; block_index < seen; ++block_index) {
      float& score = scores[block_index];
      score = score >= -kMost ? std::min(score, kMost) : -kMost;
      if (block_index >= diagonal) score = std::numeric_limits<float>::infinity();
    }
    std::array<std::int64_t, kKept> kept{};
    const std::int64_t count = std::min(kKept, seen);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t best = std::max_element(scores, scores + seen) - scores;
      kept[static_cast<std::size_t>(i)] = best;
      scores[best] = -std::numeric_limits<float>::infinity();
    }
    // By heap: of std::sort, GCC 12 warns that it might look beyond so small an array.
    std::make_heap(kept.begin(), kept.begin() + count);
    std::sort_heap(kept.begin(), kept.begin() + count);
    std::array<std::int64_t, kKept * kKeyBlock> keys{};
    std::size_t chosen = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t first = kept[static_cast<std::size_t>(i)] * kKeyBlock;
      for (std::int64_t key = first; key < std::min(first + kKeyBlock, last_key); ++key)
        keys[chosen++] = key;
    }
    const std::span<const std::int64_t> list = std::span(keys).first(chosen);
    attend_subset(
        problem, operands, block, list,
        [&](std::int64_t row) {
          const auto end = std::lower_bound(list.begin(), list.end(), problem.visible_keys(row));
          return std::pair<std::int64_t, std::int64_t>(0, end - list.begin());
        },
        scores + key_blocks(problem));
  }
};

}  // namespace

std::unique_ptr<Implementation> make_cpu_block_topk() {
  return std::make_unique<CpuBlockTopk>();
}

}  // namespace flashbench
