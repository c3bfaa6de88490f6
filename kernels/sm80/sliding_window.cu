// sliding-window: local attention (Longformer's without global tokens, Beltagy, Peters and Cohan
// 2020), an approximation: a query sees the keys less than kWindow away from its own position,
// which is bottom-right aligned like the causal mask; with one, only those before it. Exact where
// n_kv <= kWindow.
//
// It is fused attention on tensor cores (kernels/common/chosen_keys.cuh) that visits only the
// blocks of keys that some row of its tile sees, so work grows with N.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/catalogue.h"
#include "kernels/common/chosen_keys.cuh"
#include "kernels/common/families.h"
#include "kernels/common/visible_keys.h"

namespace flashbench {
namespace {

using namespace mma;

constexpr std::int64_t kWindow = 256;

// The keys that a row sees. Both ends never fall from one row to the next.
__host__ __device__ KeyRange window(const Visibility& visibility, std::int64_t row) {
  const std::int64_t own =
      std::clamp(visibility.position(row), std::int64_t{0}, visibility.n_kv - 1);
  const std::int64_t to = std::min(visibility.visible_keys(row), own + kWindow);
  return {std::min(std::max(own - kWindow + 1, std::int64_t{0}), to), to};
}

// The keys that some row of a tile sees.
__host__ __device__ KeyRange tile_window(const Visibility& visibility, std::int64_t first_row) {
  const std::int64_t last_row = std::min(first_row + kChosenRows, visibility.n_q) - 1;
  return {window(visibility, first_row).from, window(visibility, last_row).to};
}

struct WindowKeys {
  Visibility visibility;
  std::int64_t first_key;
  int block_keys;
  int blocks;

  __device__ WindowKeys(const Visibility& of, std::int64_t first_row, int keys)
      : visibility(of), block_keys(keys) {
    const KeyRange range = tile_window(visibility, first_row);
    first_key = range.from;
    blocks = static_cast<int>((range.to - range.from + keys - 1) / keys);
  }
  __device__ std::int64_t first(int block) const {
    return first_key + std::int64_t{block} * block_keys;
  }
  __device__ KeyRange seen(std::int64_t row) const { return window(visibility, row); }
};

template <class Element, int kIndex>
__global__ void __launch_bounds__(kChosenConfigs[kIndex].threads(),
                                  kChosenConfigs[kIndex].blocks_per_sm)
    sliding_window_kernel(const __grid_constant__ Arguments args) {
  constexpr Config kConfig = kChosenConfigs[kIndex];
  extern __shared__ __align__(128) char s_memory[];
  const Place place = find_place(args);
  const WindowKeys keys({args.n_q, args.n_kv, args.causal},
                        std::int64_t{place.tile} * kConfig.rows(), kConfig.keys);
  attend<Element, kConfig>(args, place, keys, s_memory);
}

// ---- host ----

using Kernel = void (*)(Arguments);

template <class Element>
Kernel kernel_of(int index) {
  constexpr Kernel kKernels[] = {sliding_window_kernel<Element, 0>,
                                 sliding_window_kernel<Element, 1>,
                                 sliding_window_kernel<Element, 2>};
  return kKernels[index];
}

class SlidingWindow final : public MmaImplementation {
 public:
  std::string_view name() const override { return "sliding-window"; }
  std::string_view description() const override {
    return "softmax over the keys less than 256 positions away; exact up to 256 keys; f16, bf16";
  }
  Kind kind() const override { return Kind::approximate; }

  std::int64_t workspace_bytes(const Problem& /*problem*/,
                               const DeviceInfo& /*device*/) const override {
    return 0;
  }

  std::optional<std::vector<StepModel>> model(const Problem& problem,
                                              const DeviceInfo& /*device*/) const override {
    const Config& config = kChosenConfigs[chosen_config(problem.head_dim)];
    const Visibility visibility = visibility_of(problem);
    double pairs = 0;
    for (std::int64_t row = 0; row < problem.n_q; row += kChosenRows) {
      const KeyRange range = tile_window(visibility, row);
      pairs += static_cast<double>(kChosenRows * config.keys *
                                   divide_up(range.to - range.from, config.keys));
    }
    pairs *= static_cast<double>(problem.batch * problem.heads);
    const std::int64_t size = size_of(problem.dtype);
    // Neighbouring tiles share their keys in the cache, so each is read once.
    return std::vector<StepModel>{
        {.name = kStepName,
         .read_bytes = (problem.q_elements() + 2 * problem.kv_elements()) * size,
         .write_bytes = problem.q_elements() * size,
         .unit = tensor_unit(problem.dtype),
         .matrix_flops = 4.0 * config.head_dim * pairs,
         .exps = pairs}};
  }

  Plan plan(const Problem& problem, const Operands& operands, void* /*workspace*/,
            Device& /*device*/) const override {
    const int index = chosen_config(problem.head_dim);
    const Arguments args = make_arguments(problem, operands, kChosenRows, std::string(name()));
    const Kernel kernel =
        problem.dtype == Dtype::f16 ? kernel_of<__half>(index) : kernel_of<__nv_bfloat16>(index);
    Plan plan;
    plan.steps.push_back({kStepName, chosen_keys_step(kernel, index, args)});
    plan.choices = {{"window", std::to_string(kWindow)}};
    return plan;
  }

 private:
  static constexpr const char* kStepName = "window";
};

}  // namespace

std::unique_ptr<Implementation> make_sliding_window() {
  return std::make_unique<SlidingWindow>();
}

}  // namespace flashbench
