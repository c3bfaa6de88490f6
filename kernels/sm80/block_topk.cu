// block-topk: block-sparse attention that chooses its blocks by the data (as in Quest, Tang et al.
// 2024, and MInference, Jiang et al. 2024, simplified), an approximation: a block of 64 queries
// keeps the kKept blocks of 64 keys whose mean has the largest product with the queries' mean.
// Under a causal mask the blocks at the diagonal are always kept, so that every row that sees a key
// keeps one. Exact where there are no more than kKept blocks.
//
// Three kernels: the keys' means; the choice, a warp for each block of queries; fused attention on
// tensor cores (kernels/common/chosen_keys.cuh) over what was chosen. The first two are all that is
// left of N^2, at 1/4096 of it.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cfloat>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/catalogue.h"
#include "kernels/common/chosen_keys.cuh"
#include "kernels/common/families.h"
#include "kernels/common/mean_rows.cuh"
#include "kernels/common/visible_keys.h"
#include "traffic.h"

namespace flashbench {
namespace {

using namespace mma;

constexpr int kKeyBlock = 64;
constexpr int kKept = 8;  // blocks of keys, at most 32: a lane each

__host__ __device__ std::int64_t key_blocks(std::int64_t keys) {
  return (keys + kKeyBlock - 1) / kKeyBlock;
}

// Blocks of keys that some row of a block of queries sees.
__device__ std::int64_t seen_blocks(const Visibility& visibility, std::int64_t first_row) {
  return key_blocks(visibility.visible_keys(min(first_row + kChosenRows, visibility.n_q) - 1));
}

// ---- the choice ----

struct ChoiceArguments {
  TensorView q;        // [batch, n_q, heads, head_dim]
  const float* means;  // of the keys, [batch, kv_heads, blocks of keys, head_dim]
  std::int32_t* kept;  // [batch, heads, tiles, kKept]: blocks of keys, the largest score first
  Visibility visibility;
  std::int64_t heads, heads_per_kv_head;
  std::int64_t tiles;  // blocks of queries in a head
  std::int64_t count;  // of all heads
  int head_dim;
};

template <class Element>
__global__ void __launch_bounds__(128) choice_kernel(const __grid_constant__ ChoiceArguments args) {
  constexpr int kColumns = 8;  // of a lane: every 32nd of 256 at most
  const std::int64_t index = std::int64_t{blockIdx.x} * 4 + threadIdx.x / 32;
  if (index >= args.count) return;  // the whole warp
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t first_row = index % args.tiles * kChosenRows;
  const std::int64_t head_index = index / args.tiles;
  const std::int64_t batch = head_index / args.heads;
  const std::int64_t head = head_index % args.heads;
  const std::int64_t kv_heads = args.heads / args.heads_per_kv_head;
  const std::int64_t rows = min(args.visibility.n_q - first_row, std::int64_t{kChosenRows});

  const auto Q = args.q.head<const Element>(batch, head, args.visibility.n_q);
  const float share = 1.0F / static_cast<float>(rows);
  float mean[kColumns] = {};
  for (std::int64_t row = 0; row < rows; ++row) {
    const Element* g_row = Q.data + (first_row + row) * Q.row_stride;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      const int column = lane + 32 * i;
      if (column < args.head_dim) mean[i] = fmaf(to_float(g_row[column]), share, mean[i]);
    }
  }

  // From which block on every one is kept.
  const std::int64_t seen = seen_blocks(args.visibility, first_row);
  const std::int64_t diagonal =
      args.visibility.causal
          ? max(args.visibility.visible_keys(first_row) - 1, std::int64_t{0}) / kKeyBlock
          : seen;
  const float* g_mean = args.means + (batch * kv_heads + head / args.heads_per_kv_head) *
                                         key_blocks(args.visibility.n_kv) * args.head_dim;
  // Lane i keeps the block that ranks i. Scores lie above -infinity, which marks an empty place,
  // and below infinity, which marks the diagonal; a product that overflowed into a NaN ranks last.
  float best = -INFINITY;
  auto kept = std::int32_t{0};
  for (std::int64_t block = 0; block < seen; ++block, g_mean += args.head_dim) {
    float product = 0.0F;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      const int column = lane + 32 * i;
      if (column < args.head_dim) product = fmaf(mean[i], g_mean[column], product);
    }
    product = group_sum<32>(product);
    float score = product >= -FLT_MAX ? fminf(product, FLT_MAX) : -FLT_MAX;
    if (block >= diagonal) score = INFINITY;
    // It ranks behind those at least as large; the others move on by one.
    const int rank = __popc(__ballot_sync(0xffffffffU, best >= score));
    const float best_before = __shfl_up_sync(0xffffffffU, best, 1);
    const std::int32_t kept_before = __shfl_up_sync(0xffffffffU, kept, 1);
    if (lane > rank) {
      best = best_before;
      kept = kept_before;
    } else if (lane == rank) {
      best = score;
      kept = static_cast<std::int32_t>(block);
    }
  }
  if (lane < kKept) args.kept[index * kKept + lane] = kept;
}

// ---- attention ----

// The chosen blocks in the order of their scores, in steps of the tile's blocks.
struct KeptKeys {
  Visibility visibility;
  int kept;  // this lane's: the block of keys that ranks `lane`
  int block_keys;
  int blocks;

  __device__ KeptKeys(const Visibility& of, std::int64_t first_row, const std::int32_t* g_kept,
                      int keys)
      : visibility(of),
        kept(g_kept[threadIdx.x % kKept]),
        block_keys(keys),
        blocks(static_cast<int>(min(seen_blocks(of, first_row), std::int64_t{kKept})) * kKeyBlock /
               keys) {}
  __device__ std::int64_t first(int block) const {
    const int steps = kKeyBlock / block_keys;  // of a kept block
    return std::int64_t{__shfl_sync(0xffffffffU, kept, block / steps)} * kKeyBlock +
           block % steps * block_keys;
  }
  __device__ KeyRange seen(std::int64_t row) const { return {0, visibility.visible_keys(row)}; }
};

template <class Element, int kIndex>
__global__ void __launch_bounds__(kChosenConfigs[kIndex].threads(),
                                  kChosenConfigs[kIndex].blocks_per_sm)
    block_topk_kernel(const __grid_constant__ Arguments args, const std::int32_t* g_kept) {
  constexpr Config kConfig = kChosenConfigs[kIndex];
  static_assert(kKeyBlock % kConfig.keys == 0 && 32 % kKept == 0);
  extern __shared__ __align__(128) char s_memory[];
  const Place place = find_place(args);
  const std::int64_t index = std::int64_t{place.head_index} * args.tiles + place.tile;
  const KeptKeys keys({args.n_q, args.n_kv, args.causal}, std::int64_t{place.tile} * kConfig.rows(),
                      g_kept + index * kKept, kConfig.keys);
  attend<Element, kConfig>(args, place, keys, s_memory);
}

// ---- host ----

struct Kernels {
  void (*choice)(ChoiceArguments);
  void (*attend)(Arguments, const std::int32_t*);
  Enqueue (*pool)(std::string_view, const Problem&, const MeanArguments&);
};

template <class Element>
Kernels kernels_of(int index) {
  constexpr decltype(Kernels::attend) kAttend[] = {
      block_topk_kernel<Element, 0>, block_topk_kernel<Element, 1>, block_topk_kernel<Element, 2>};
  return {choice_kernel<Element>, kAttend[index], mean_rows<Element, float>};
}

class BlockTopk final : public MmaImplementation {
 public:
  std::string_view name() const override { return "block-topk"; }
  std::string_view description() const override {
    return "softmax over the 8 blocks of 64 keys with the largest mean score; exact up to 512 "
           "keys; f16, bf16";
  }
  Kind kind() const override { return Kind::approximate; }

  std::int64_t workspace_bytes(const Problem& problem,
                               const DeviceInfo& /*device*/) const override {
    return checked_add(means_bytes(problem), kept_bytes(problem));
  }

  std::optional<std::vector<StepModel>> model(const Problem& problem,
                                              const DeviceInfo& device) const override {
    const std::int64_t size = size_of(problem.dtype);
    const std::int64_t kept = cache_retention_bytes(device);
    const std::int64_t q_bytes = problem.q_elements() * size;
    const std::int64_t means = means_bytes(problem) <= kept ? 0 : means_bytes(problem);
    const std::int64_t choices = kept_bytes(problem) <= kept ? 0 : kept_bytes(problem);
    const std::int64_t keys = std::min<std::int64_t>(kKept * kKeyBlock, problem.n_kv);
    // Every block of queries reads its own choice: from the cache where all of a head fits it.
    const std::int64_t key_bytes = 2 * problem.head_dim * size;
    const std::int64_t chosen_bytes =
        problem.n_kv * key_bytes <= kept
            ? problem.batch * problem.kv_heads * problem.n_kv * key_bytes
            : checked_multiply(tiles(problem), keys * key_bytes);
    const double pairs = static_cast<double>(tiles(problem)) * kChosenRows *
                         static_cast<double>(key_blocks(keys) * kKeyBlock);
    const double ranked = static_cast<double>(tiles(problem)) *
                          static_cast<double>(key_blocks(problem.n_kv) * problem.head_dim);
    const Config& config = kChosenConfigs[chosen_config(problem.head_dim)];
    return std::vector<StepModel>{
        {.name = "pool", .read_bytes = problem.kv_elements() * size, .write_bytes = means},
        {.name = "choose",
         .read_bytes = q_bytes + means,
         .write_bytes = choices,
         .unit = MatrixUnit::fma_f32,
         .matrix_flops = 2.0 * ranked},
        {.name = "attend",
         .read_bytes = q_bytes + choices + chosen_bytes,
         .write_bytes = q_bytes,
         .unit = tensor_unit(problem.dtype),
         .matrix_flops = 4.0 * config.head_dim * pairs,
         .exps = pairs}};
  }

  Plan plan(const Problem& problem, const Operands& operands, void* workspace,
            Device& /*device*/) const override {
    const int index = chosen_config(problem.head_dim);
    const Kernels kernels =
        problem.dtype == Dtype::f16 ? kernels_of<__half>(index) : kernels_of<__nv_bfloat16>(index);
    const Arguments args = make_arguments(problem, operands, kChosenRows, std::string(name()));
    const std::int64_t blocks = key_blocks(problem.n_kv);
    auto* means = static_cast<float*>(workspace);
    auto* kept =
        reinterpret_cast<std::int32_t*>(static_cast<char*>(workspace) + means_bytes(problem));

    MeanArguments pool{};
    pool.from = view_of(operands.k);
    pool.to = {means, problem.kv_heads * blocks * problem.head_dim, problem.head_dim,
               blocks * problem.head_dim};
    pool.rows = problem.n_kv;
    pool.heads = problem.kv_heads;
    pool.segments = {blocks, kKeyBlock, 0};
    pool.head_dim = static_cast<int>(problem.head_dim);

    ChoiceArguments choice{};
    choice.q = view_of(operands.q);
    choice.means = means;
    choice.kept = kept;
    choice.visibility = visibility_of(problem);
    choice.heads = problem.heads;
    choice.heads_per_kv_head = problem.heads / problem.kv_heads;
    choice.tiles = args.tiles;
    choice.count = tiles(problem);
    choice.head_dim = static_cast<int>(problem.head_dim);
    const auto choose = [choice, kernel = kernels.choice](Stream stream) {
      kernel<<<static_cast<unsigned>(divide_up(choice.count, 4)), 128, 0,
               static_cast<cudaStream_t>(stream)>>>(choice);
      CUDA_CHECK(cudaGetLastError());
    };

    Plan plan;
    plan.steps.push_back({"pool", kernels.pool(name(), problem, pool)});
    plan.steps.push_back({"choose", choose});
    plan.steps.push_back({"attend", chosen_keys_step(kernels.attend, index, args,
                                                     static_cast<const std::int32_t*>(kept))});
    plan.choices = {
        {"blocks", std::to_string(kKept) + " of " + std::to_string(kKeyBlock) + " keys"}};
    return plan;
  }

 private:
  /// Blocks of queries of all heads.
  static std::int64_t tiles(const Problem& problem) {
    return problem.batch * problem.heads * divide_up(problem.n_q, kChosenRows);
  }
  static std::int64_t means_bytes(const Problem& problem) {
    return checked_multiply(problem.batch * problem.kv_heads * key_blocks(problem.n_kv),
                            problem.head_dim * 4);
  }
  static std::int64_t kept_bytes(const Problem& problem) { return tiles(problem) * kKept * 4; }
};

}  // namespace

std::unique_ptr<Implementation> make_block_topk() {
  return std::make_unique<BlockTopk>();
}

}  // namespace flashbench
