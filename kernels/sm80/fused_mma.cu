// fused-mma: O = softmax(scale Q K^T) V without ever writing S, on the tensor cores of any GPU from
// sm_80.
//
// FlashAttention-2 (Dao 2023): a thread block owns a tile of query rows, a warp 16 or 32 of them
// with all their keys, so that the softmax of a row stays within four lanes. Blocks of keys stream
// through a ring in shared memory; for each block
//   S = Q K^T              mma.sync, K by ldmatrix
//   m, l, O rescaled       only when a row's maximum grows by more than 2^8: O and l share
//                          the reference m, whatever it is, so O / l is exact
//   P = 2^(S - m)          rounded to the dtype, in the registers of S
//   O += P V               mma.sync, V by ldmatrix.trans
// In base 2 the scale and log2(e) are one factor. Limit: tensor cores by mma.sync, which on Hopper
// run at about 0.6 of the WGMMA rate, and shared-memory reads: a warp of 32 rows reads each K and V
// fragment once for two mma, which needs half of the bandwidth that 16 rows do. docs/mma-notes.md
// has the count and the measurements.
//
// Head dims between the configured ones are padded with zeros in shared memory.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "error.h"
#include "kernels/catalogue.h"
#include "kernels/common/cuda_check.h"
#include "kernels/common/families.h"
#include "kernels/common/mma_tile.cuh"
#include "traffic.h"

namespace flashbench {
namespace {

using namespace mma;

// ---- configuration ----

// The tiles. A kernel's parameter is its row here (nvcc's host stubs cannot take a Config itself).
constexpr Config kConfigs[] = {
    // d  warps row_tiles keys stages blocks_per_sm q_in_registers
    {64, 4, 2, 64, 2, 2, true},
    {96, 4, 2, 64, 2, 2, false},
    {128, 4, 2, 64, 2, 2, false},
    {192, 8, 1, 64, 2, 1, false},
    {256, 8, 1, 64, 2, 1, false},
    // for GPUs with less shared memory than these need: 99 KB on 8.6 and 8.9, 163 KB on 8.0
    {192, 4, 1, 32, 2, 2, false},
    {256, 4, 1, 32, 2, 2, false},
};
constexpr int kConfigCount = static_cast<int>(std::size(kConfigs));

// ---- kernel ----

template <class Element, int kIndex>
__global__ void __launch_bounds__(kConfigs[kIndex].threads(), kConfigs[kIndex].blocks_per_sm)
    fused_mma_kernel(const __grid_constant__ Arguments args) {
  constexpr Config kConfig = kConfigs[kIndex];
  static_assert(is_valid(kConfig));
  extern __shared__ __align__(128) char s_memory[];  // Q (later O) tile, then stages of K and V

  const auto [head_index, batch, head, kv_head, tile] = find_place(args);
  const std::int64_t first_row = std::int64_t{tile} * kConfig.rows();

  // Row i of the tile sees the keys before diagonal + i, or all. Blocks of keys before what its
  // first row sees are whole; none after what its last row sees is needed.
  const std::int64_t diagonal = args.causal ? first_row + args.n_kv - args.n_q + 1 : args.n_kv;
  const auto blocks_before = [&](std::int64_t keys) {  // whole blocks before a key
    return static_cast<int>(max(std::int64_t{0}, keys) / kConfig.keys);
  };
  const auto blocks_of = [&](int row) {  // blocks of which the tile's row `row` sees a key
    const std::int64_t end = args.causal ? min(diagonal + row, args.n_kv) : args.n_kv;
    return blocks_before(end + kConfig.keys - 1);
  };
  const int whole_blocks = blocks_before(min(diagonal, args.n_kv));
  const int last_row =
      static_cast<int>(min(std::int64_t{kConfig.rows()}, args.n_q - first_row)) - 1;
  const int blocks = blocks_of(last_row);

  const std::uint32_t s_q = shared_address(s_memory);
  const std::uint32_t s_k = s_q + kConfig.rows() * kConfig.row_bytes();
  const std::uint32_t s_v = s_k + kConfig.kv_bytes();
  constexpr std::uint32_t kStageBytes = 2 * kConfig.kv_bytes();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;

  const TileLoader<kConfig, kConfig.keys> k_loader{
      args.k + batch * args.k_stride[0] + kv_head * args.k_stride[2], args.k_stride[1], s_k,
      args.head_dim};
  const TileLoader<kConfig, kConfig.keys> v_loader{
      args.v + batch * args.v_stride[0] + kv_head * args.v_stride[2], args.v_stride[1], s_v,
      args.head_dim};
  const auto load =
      [&](int block) {  // one group a block, empty past the end so that counts stay right
        if (block < blocks) {
          const std::uint32_t s_stage =
              static_cast<std::uint32_t>(block % kConfig.stages) * kStageBytes;
          const std::int64_t first_key = std::int64_t{block} * kConfig.keys;
          k_loader.load(first_key, args.n_kv, s_stage);
          v_loader.load(first_key, args.n_kv, s_stage);
        }
        cp_async_commit();
      };

  {
    const TileLoader<kConfig, kConfig.rows()> q_loader{
        args.q + batch * args.q_stride[0] + head * args.q_stride[2], args.q_stride[1], s_q,
        args.head_dim};
    q_loader.load(first_row, args.n_q, 0);
  }
#pragma unroll
  for (int stage = 0; stage < kConfig.stages - 1; ++stage) load(stage);

  // Q and V: matrices 0, 1 of ldmatrix.x4 are the two halves of rows; K: the two halves of columns.
  const FragmentAddress<kConfig> q_address(s_q + warp * kConfig.warp_rows() * kConfig.row_bytes(),
                                           lane % 16, lane / 16);
  const FragmentAddress<kConfig> k_address(s_k, lane % 8 + lane / 16 * 8, lane / 8 % 2);
  const FragmentAddress<kConfig> v_address(s_v, lane % 16, lane / 16);

  WarpState<kConfig> state;
  QueryFragments<kConfig> r_q;

  const auto await = [&](int block) {
    cp_async_wait<kConfig.stages - 2>();  // this thread's part of the block has landed
    __syncthreads();                      // and everyone's; and all have left the block before it
    load(block + kConfig.stages - 1);     // whose stage this takes
  };
  if constexpr (kConfig.q_in_registers) {
    cp_async_wait<kConfig.stages - 2>();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kConfig.row_tiles; ++i) {
#pragma unroll
      for (int k = 0; k < kConfig.head_dim / 16; ++k) ldmatrix_x4(r_q.a[i][k], q_address.at(i, k));
    }
  }

  const int warp_row = warp * kConfig.warp_rows();
  // Blocks that some row of this warp sees; it sits the others out.
  const int warp_blocks = warp_row > last_row ? 0 : blocks_of(warp_row + kConfig.warp_rows() - 1);
#pragma unroll 1
  for (int block = 0; block < blocks; ++block) {
    await(block);
    if (block >= warp_blocks) continue;
    const std::uint32_t s_stage = static_cast<std::uint32_t>(block % kConfig.stages) * kStageBytes;
    Scores<kConfig> S;
    scores<Element, kConfig>(S, q_address, r_q, k_address, s_stage);
    if (block >= whole_blocks) {  // the diagonal and the ragged end
      const std::int64_t first_key = std::int64_t{block} * kConfig.keys;
      mask<kConfig>(S, {static_cast<int>(diagonal - first_key) + warp_row,
                        static_cast<int>(min(args.n_kv - first_key, std::int64_t{kConfig.keys}))});
    }
    rescale<kConfig>(state, S, args.scale_log2, args.slack);
    accumulate<Element, kConfig>(state, S, v_address, s_stage, args.scale_log2);
  }

  cp_async_wait<0>();  // no copy may outlive the block; with no key seen, Q is still in flight
  if (blocks == 0) __syncthreads();  // O is about to take the place of other threads' Q copies
  store<Element, kConfig>(
      state, s_memory, args,
      args.o + batch * args.o_stride[0] + head * args.o_stride[2] + first_row * args.o_stride[1],
      args.lse == nullptr ? nullptr : args.lse + head_index * args.n_q, first_row);
}

// ---- host ----

using Kernel = void (*)(Arguments);

template <class Element, int... kIndex>
Kernel kernel_of(int index, std::integer_sequence<int, kIndex...> /*all*/) {
  static constexpr Kernel kKernels[] = {fused_mma_kernel<Element, kIndex>...};
  return kKernels[index];
}

Kernel kernel_of(int index, Dtype dtype) {
  constexpr auto kAll = std::make_integer_sequence<int, kConfigCount>();
  return dtype == Dtype::f16 ? kernel_of<__half>(index, kAll)
                             : kernel_of<__nv_bfloat16>(index, kAll);
}

// The first that holds the head dim and fits the device's shared memory.
int choose_config(const Problem& problem, const DeviceInfo& device) {
  for (int i = 0; i < kConfigCount; ++i) {
    if (kConfigs[i].head_dim >= problem.head_dim &&
        kConfigs[i].shared_bytes() <= device.shared_memory_per_block) {
      return i;
    }
  }
  throw Error("fused-mma: no tile fits the device's shared memory");
}

// Heads side by side. Without a mask one: tiles are alike, and one head after the other has least
// in flight. With one, long tiles of several go first: of as many as have their K and V in half of
// the L2, in groups of equal size.
std::int64_t choose_head_group(const Problem& problem, const DeviceInfo& device) {
  if (problem.mask == Mask::none) return 1;
  const std::int64_t heads = problem.batch * problem.heads;
  const std::int64_t kv_bytes = 2 * problem.n_kv * problem.head_dim * size_of(problem.dtype);
  const std::int64_t kv_heads = std::max<std::int64_t>(1, device.l2_bytes / 2 / kv_bytes);
  const std::int64_t most = kv_heads * (problem.heads / problem.kv_heads);
  return divide_up(heads, divide_up(heads, most));
}

class FusedMma final : public MmaImplementation {
 public:
  std::string_view name() const override { return "fused-mma"; }
  std::string_view description() const override {
    return "FlashAttention-2 style on tensor cores through mma.sync; f16, bf16, sm_80 and newer";
  }
  Kind kind() const override { return Kind::fused; }

  std::int64_t workspace_bytes(const Problem& /*problem*/,
                               const DeviceInfo& /*device*/) const override {
    return 0;
  }

  std::optional<std::vector<StepModel>> model(const Problem& problem,
                                              const DeviceInfo& device) const override {
    const Config& config = kConfigs[choose_config(problem, device)];
    const std::int64_t o_bytes = problem.q_elements() * size_of(problem.dtype);
    const FusedWalk walk{config.rows(), device.sm_count};
    const double pairs = executed_pairs(problem, config.warp_rows(), config.keys);
    return std::vector<StepModel>{{.name = kStepName,
                                   .read_bytes = o_bytes + streamed_kv_bytes(problem, device, walk),
                                   .write_bytes = o_bytes,
                                   .unit = tensor_unit(problem.dtype),
                                   .matrix_flops = 4.0 * config.head_dim * pairs,
                                   .exps = pairs}};
  }

  Plan plan(const Problem& problem, const Operands& operands, void* /*workspace*/,
            Device& device) const override {
    const int index = choose_config(problem, device.info());
    const Config& config = kConfigs[index];
    Arguments args = make_arguments(problem, operands, config.rows(), "fused-mma");
    args.head_group = static_cast<int>(choose_head_group(problem, device.info()));

    const Kernel kernel = kernel_of(index, problem.dtype);
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    config.shared_bytes()));
    const auto launch = [=](Stream stream) {
      kernel<<<static_cast<unsigned>(args.head_count * args.tiles),
               static_cast<unsigned>(config.threads()),
               static_cast<std::size_t>(config.shared_bytes()),
               static_cast<cudaStream_t>(stream)>>>(args);
      CUDA_CHECK(cudaGetLastError());
    };
    Plan plan;
    plan.steps.push_back({kStepName, launch});
    plan.choices = {{"tile", std::to_string(config.rows()) + "x" + std::to_string(config.keys) +
                                 "x" + std::to_string(config.head_dim)},
                    {"warps", std::to_string(config.warps)},
                    {"stages", std::to_string(config.stages)},
                    {"heads_at_once", std::to_string(args.head_group)}};
    return plan;
  }

 private:
  static constexpr const char* kStepName = "attention";
};

}  // namespace

std::unique_ptr<Implementation> make_fused_mma() {
  return std::make_unique<FusedMma>();
}

}  // namespace flashbench
