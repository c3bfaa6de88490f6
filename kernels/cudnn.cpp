// cuDNN's scaled dot-product attention, the yardstick. Compiled against the cudnn-frontend headers
// where CMake finds them (FLASHBENCH_CUDNN); libcudnn itself is loaded when it is first asked for.

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "error.h"
#include "implementation.h"
#include "kernels/catalogue.h"

#ifdef FLASHBENCH_CUDNN
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

namespace cudnn_frontend {
// The frontend finds every cuDNN function through this handle.
void* cudnn_dlhandle = nullptr;
}  // namespace cudnn_frontend
#endif

namespace flashbench {
namespace {

#ifdef FLASHBENCH_CUDNN

namespace fe = cudnn_frontend;

/// Folders where the libraries of Python wheels and of plain installs lie.
std::vector<std::filesystem::path> library_folders() {
  namespace fs = std::filesystem;
  std::vector<fs::path> folders;
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const char* root = std::getenv(variable);
    if (root == nullptr) continue;
    folders.push_back(fs::path(root) / "lib");
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(fs::path(root) / "lib", ignored)) {
      if (!entry.path().filename().string().starts_with("python3")) continue;
      const fs::path nvidia = entry.path() / "site-packages/nvidia";
      for (const char* wheel : {"cudnn/lib", "cu13/lib", "cuda_runtime/lib"}) {
        folders.push_back(nvidia / wheel);
      }
    }
  }
  folders.emplace_back("/usr/local/cuda/lib64");
  folders.emplace_back("/usr/lib/x86_64-linux-gnu");
  return folders;
}

/// Opens `name` from the loader's own search path, else from the usual folders. Null where it is
/// nowhere.
void* open_library(const std::string& name) {
  if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL)) return handle;
  for (const auto& folder : library_folders()) {
    if (void* handle = dlopen((folder / name).c_str(), RTLD_NOW | RTLD_GLOBAL)) return handle;
  }
  return nullptr;
}

/// libcudnn, loaded once; or why it could not be.
struct Library {
  std::string missing;  ///< empty where it is there
  std::string version;
};

const Library& library() {
  static const Library loaded = [] {
    Library result;
    const char* chosen = std::getenv("FLASHBENCH_CUDNN");
    void* handle =
        chosen != nullptr ? dlopen(chosen, RTLD_NOW | RTLD_GLOBAL) : open_library("libcudnn.so.9");
    if (handle == nullptr) {
      result.missing =
          chosen != nullptr
              ? "FLASHBENCH_CUDNN names " + std::string(chosen) + ", which does not load"
              : "libcudnn.so.9 was not found; install cuDNN 9 or set FLASHBENCH_CUDNN to its path";
      return result;
    }
    // The frontend opens the CUDA runtime by its bare name, which succeeds once it is loaded.
    if (open_library("libcudart.so.13") == nullptr && open_library("libcudart.so.12") == nullptr) {
      result.missing =
          "libcudart.so, which cudnn-frontend needs, was not found; set LD_LIBRARY_PATH";
      return result;
    }
    const auto version = reinterpret_cast<std::size_t (*)()>(dlsym(handle, "cudnnGetVersion"));
    if (version == nullptr) {
      result.missing = "libcudnn has no cudnnGetVersion";
      return result;
    }
    fe::cudnn_dlhandle = handle;
    const std::size_t number = version();  // 91900 is 9.19.0
    result.version = std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) +
                     "." + std::to_string(number % 100);
    return result;
  }();
  return loaded;
}

void check(fe::error_t error) {
  if (error.is_bad()) throw Error("cuDNN: " + error.get_message());
}

void check(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS) {
    throw Error(std::string("cuDNN: ") + what + " failed: " + fe::detail::get_error_string(status));
  }
}

/// A cuDNN context on the current device.
class Handle {
 public:
  Handle() : destroy_(reinterpret_cast<Destroy*>(dlsym(fe::cudnn_dlhandle, "cudnnDestroy"))) {
    if (destroy_ == nullptr) throw Error("cuDNN: libcudnn has no cudnnDestroy");
    check(fe::detail::create_handle(&handle_), "cudnnCreate");
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  // Not through the frontend, which throws where it finds no such function.
  ~Handle() { destroy_(handle_); }
  cudnnHandle_t get() const { return handle_; }

 private:
  using Destroy = cudnnStatus_t(cudnnHandle_t);
  Destroy* destroy_;
  cudnnHandle_t handle_ = nullptr;
};

constexpr std::int64_t kQ = 1;
constexpr std::int64_t kK = 2;
constexpr std::int64_t kV = 3;
constexpr std::int64_t kO = 4;
constexpr std::int64_t kStats = 5;

/// A finished cuDNN plan with the context that it was made in.
struct Built {
  std::shared_ptr<Handle> handle;
  fe::graph::Graph graph;
  std::int64_t workspace_bytes = 0;
  std::string engine;
};

/// cuDNN's order of dimensions is batch, heads, rows, columns.
std::vector<std::int64_t> cudnn_order(const std::array<std::int64_t, 4>& bnhd) {
  return {bnhd[0], bnhd[2], bnhd[1], bnhd[3]};
}

/// Lets cuDNN's heuristics choose a plan. Throws Error where cuDNN has none.
std::shared_ptr<Built> build(const Problem& problem, const Operands& operands) {
  auto built = std::make_shared<Built>();
  built->handle = std::make_shared<Handle>();
  fe::graph::Graph& graph = built->graph;
  const auto type = problem.dtype == Dtype::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF;
  graph.set_io_data_type(type)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const auto input = [&](const Tensor& tensor, const char* name, std::int64_t uid) {
    return graph.tensor(fe::graph::Tensor_attributes()
                            .set_name(name)
                            .set_uid(uid)
                            .set_dim(cudnn_order(tensor.shape))
                            .set_stride(cudnn_order(tensor.stride)));
  };
  auto attributes = fe::graph::SDPA_attributes()
                        .set_name("attention")
                        .set_generate_stats(operands.lse != nullptr)
                        .set_attn_scale(static_cast<float>(problem.scale));
  if (problem.mask == Mask::causal) {
    attributes.set_diagonal_alignment(fe::DiagonalAlignment_t::BOTTOM_RIGHT)
        .set_diagonal_band_right_bound(0);
  }
  const auto [output, stats] = graph.sdpa(input(operands.q, "Q", kQ), input(operands.k, "K", kK),
                                          input(operands.v, "V", kV), attributes);
  output->set_output(true)
      .set_uid(kO)
      .set_dim(cudnn_order(operands.o.shape))
      .set_stride(cudnn_order(operands.o.stride));
  if (operands.lse != nullptr) {
    stats->set_output(true).set_uid(kStats).set_data_type(fe::DataType_t::FLOAT);
  }

  auto* handle = built->handle->get();
  check(graph.validate());
  check(graph.build_operation_graph(handle));
  check(graph.create_execution_plans({fe::HeurMode_t::A}));
  check(graph.check_support());
  check(graph.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE));
  check(graph.get_workspace_size(built->workspace_bytes));
  if (graph.get_plan_name(built->engine).is_bad()) built->engine.clear();
  return built;
}

/// The operands of a problem before there is memory: contiguous, no log-sum-exp.
Operands contiguous_operands(const Problem& p) {
  Operands operands;
  operands.q = operands.o = contiguous(nullptr, p.dtype, p.batch, p.n_q, p.heads, p.head_dim);
  operands.k = operands.v = contiguous(nullptr, p.dtype, p.batch, p.n_kv, p.kv_heads, p.head_dim);
  return operands;
}

#endif  // FLASHBENCH_CUDNN

class Cudnn final : public Implementation {
 public:
  std::string_view name() const override { return "cudnn"; }
  std::string_view description() const override {
    return "cuDNN's fused attention, the library's choice of kernel";
  }
  DeviceKind device() const override { return DeviceKind::cuda; }
  Kind kind() const override { return Kind::library; }

  std::optional<std::string> unavailable(const DeviceInfo& device) const override {
#ifdef FLASHBENCH_CUDNN
    if (device.compute_capability < 80)
      return "cuDNN's fused attention needs compute capability 8.0";
    if (!library().missing.empty()) return library().missing;
    return std::nullopt;
#else
    static_cast<void>(device);
    return "built without the cudnn-frontend headers";
#endif
  }

  std::optional<std::string> unsupported(const Problem& problem,
                                         const DeviceInfo& device) const override {
    if (auto reason = unavailable(device)) return reason;
    if (problem.dtype == Dtype::f32) return "computes f16 and bf16, not f32";
    if (problem.head_dim % 8 != 0 || problem.head_dim > 256)
      return "head_dim must be a multiple of 8 up to 256";
    if (std::max(problem.n_q, problem.n_kv) > std::numeric_limits<std::int32_t>::max())
      return "more than 2^31 rows";
#ifdef FLASHBENCH_CUDNN
    try {
      built(problem, contiguous_operands(problem));
    } catch (const std::exception& error) {  // the frontend has its own where a symbol is missing
      return error.what();
    }
#endif
    return std::nullopt;
  }

  Arithmetic arithmetic(const Problem&) const override {
    return {.scores_in_dtype = false,
            .weights_in_dtype = true,
            .weights_normalised = false,
            .tensor_core_sums = true};
  }

  std::int64_t workspace_bytes(const Problem& problem, const DeviceInfo&) const override {
#ifdef FLASHBENCH_CUDNN
    return built(problem, contiguous_operands(problem))->workspace_bytes;
#else
    static_cast<void>(problem);
    return 0;
#endif
  }

  std::optional<std::vector<StepModel>> model(const Problem&, const DeviceInfo&) const override {
    return std::nullopt;
  }

  Plan plan(const Problem& problem, const Operands& operands, void* workspace,
            Device&) const override {
#ifdef FLASHBENCH_CUDNN
    const std::shared_ptr<Built> ready = built(problem, operands);
    if (ready->workspace_bytes > built(problem, contiguous_operands(problem))->workspace_bytes) {
      throw Error(
          "cuDNN: these tensors need more workspace than contiguous ones without log-sum-exp");
    }
    std::unordered_map<std::int64_t, void*> pointers;
    pointers[kQ] = operands.q.data;
    pointers[kK] = operands.k.data;
    pointers[kV] = operands.v.data;
    pointers[kO] = operands.o.data;
    if (operands.lse != nullptr) pointers[kStats] = operands.lse;

    Plan plan;
    plan.choices["version"] = library().version;
    if (!ready->engine.empty()) plan.choices["engine"] = ready->engine;
    plan.steps.push_back({"attention", [ready, pointers, workspace](Stream stream) mutable {
                            auto* handle = ready->handle->get();
                            check(fe::detail::set_stream(handle, static_cast<cudaStream_t>(stream)),
                                  "cudnnSetStream");
                            check(ready->graph.execute(handle, pointers, workspace));
                          }});
    return plan;
#else
    static_cast<void>(problem);
    static_cast<void>(operands);
    static_cast<void>(workspace);
    throw Error("built without the cudnn-frontend headers");
#endif
  }

#ifdef FLASHBENCH_CUDNN
 private:
  /// What a cuDNN plan depends on.
  struct Key {
    Problem problem;
    std::array<std::array<std::int64_t, 4>, 4> strides;
    bool lse;
    bool operator==(const Key&) const = default;
  };

  /// Making a plan takes cuDNN a good part of a second: keep the latest few.
  std::shared_ptr<Built> built(const Problem& problem, const Operands& operands) const {
    const Key key{problem,
                  {operands.q.stride, operands.k.stride, operands.v.stride, operands.o.stride},
                  operands.lse != nullptr};
    const std::scoped_lock lock(mutex_);
    for (const auto& [known, plan] : cache_) {
      if (known == key) return plan;
    }
    if (cache_.size() == kCached) cache_.erase(cache_.begin());
    cache_.emplace_back(key, build(problem, operands));
    return cache_.back().second;
  }

  static constexpr std::size_t kCached = 4;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<Key, std::shared_ptr<Built>>> cache_;
#endif
};

}  // namespace

std::unique_ptr<Implementation> make_cudnn() {
  return std::make_unique<Cudnn>();
}

}  // namespace flashbench
