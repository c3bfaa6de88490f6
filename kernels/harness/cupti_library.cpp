#if __has_include(<cupti_range_profiler.h>)

#include "kernels/harness/cupti_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <vector>

#include "range_profiler.h"

namespace flashbench {
namespace {

// CUPTI 13.0 has the API version 130001; 12.6 had 24. The soname's number is CUDA's major version.
constexpr int kCudaMajor = CUDA_VERSION / 1000;

std::vector<std::string> candidates() {
  const std::string versioned = fmt::format("libcupti.so.{}", kCudaMajor);
  std::vector<std::string> paths{versioned};
  std::vector<std::string> roots;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* root = std::getenv(variable)) roots.emplace_back(root);
  }
  roots.emplace_back("/usr/local/cuda");
  roots.push_back(fmt::format("/usr/local/cuda-{}.{}", kCudaMajor, CUDA_VERSION % 1000 / 10));
  for (const std::string& root : roots) {
    for (const char* folder : {"lib64", "extras/CUPTI/lib64", "lib"}) {
      paths.push_back(fmt::format("{}/{}/{}", root, folder, versioned));
    }
  }
  paths.emplace_back("libcupti.so");  // whatever version: load() sees whether it will do
  return paths;
}

constexpr const char* kPermission =
    "reading the GPU's performance counters needs permission: run as root, or let every user read "
    "them with the kernel module option NVreg_RestrictProfilingToAdminUsers=0 "
    "(developer.nvidia.com/ERR_NVGPUCTRPERM)";
constexpr const char* kBusy =
    "another profiler holds the GPU's performance counters (ncu, nsys, dcgm, another flashbench): "
    "end it (for dcgm: dcgmi profile --pause) and run again";
constexpr const char* kVersions =
    "this CUPTI does not go with this driver: use the CUPTI of the driver's CUDA version, or a "
    "newer driver";

const char* advice(CUptiResult result) {
  switch (result) {
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES: return kPermission;
    case CUPTI_ERROR_HARDWARE_BUSY:
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
    case CUPTI_ERROR_OLD_PROFILER_API_INITIALIZED: return kBusy;
    case CUPTI_ERROR_NOT_INITIALIZED:
    case CUPTI_ERROR_NOT_COMPATIBLE:
    case CUPTI_ERROR_API_NOT_IMPLEMENTED:
    case CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT:
    case CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED:
    case CUPTI_ERROR_INVALID_CHIP_NAME: return kVersions;
    case CUPTI_ERROR_NOT_SUPPORTED:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED:
      return "this device, as it is set up, has no counters to read";
    case CUPTI_ERROR_OUT_OF_MEMORY: return "the profiler ran out of memory";
    default: return nullptr;
  }
}

}  // namespace

CuptiLibrary::CuptiLibrary(const std::string& path) {
  void* library = open(path);
  load(library, result_string, "cuptiGetResultString");
  load(library, initialize, "cuptiProfilerInitialize");
  load(library, device_supported, "cuptiProfilerDeviceSupported");
  load(library, counter_availability, "cuptiProfilerGetCounterAvailability");
  load(library, chip_name, "cuptiDeviceGetChipName");
  load(library, host_initialize, "cuptiProfilerHostInitialize");
  load(library, host_deinitialize, "cuptiProfilerHostDeinitialize");
  load(library, add_metrics, "cuptiProfilerHostConfigAddMetrics");
  load(library, config_image_size, "cuptiProfilerHostGetConfigImageSize");
  load(library, config_image, "cuptiProfilerHostGetConfigImage");
  load(library, pass_count, "cuptiProfilerHostGetNumOfPasses");
  load(library, evaluate, "cuptiProfilerHostEvaluateToGpuValues");
  load(library, enable, "cuptiRangeProfilerEnable");
  load(library, disable, "cuptiRangeProfilerDisable");
  load(library, counter_data_size, "cuptiRangeProfilerGetCounterDataSize");
  load(library, counter_data_initialize, "cuptiRangeProfilerCounterDataImageInitialize");
  load(library, set_config, "cuptiRangeProfilerSetConfig");
  load(library, start, "cuptiRangeProfilerStart");
  load(library, stop, "cuptiRangeProfilerStop");
  load(library, push_range, "cuptiRangeProfilerPushRange");
  load(library, pop_range, "cuptiRangeProfilerPopRange");
  load(library, decode, "cuptiRangeProfilerDecodeData");
}

void* CuptiLibrary::open(const std::string& path) {
  for (const std::string& candidate : path.empty() ? candidates() : std::vector{path}) {
    if (void* library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      path_ = candidate;
      return library;
    }
  }
  const char* cause = dlerror();
  if (!path.empty()) {
    throw CountersUnavailable(fmt::format("{} cannot be loaded ({})", path,
                                          cause == nullptr ? "no reason given" : cause));
  }
  throw CountersUnavailable(
      fmt::format("no CUPTI library found (libcupti.so.{0}, part of the CUDA {0} toolkit): install "
                  "it, or name the file in FLASHBENCH_CUPTI",
                  kCudaMajor));
}

template <typename Function>
void CuptiLibrary::load(void* library, Function*& function, const char* name) const {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) {
    throw CountersUnavailable(
        fmt::format("{} has no {}: its range profiler came with CUDA 12.6, use that or a newer one",
                    path_, name));
  }
}

void CuptiLibrary::check(CUptiResult result, const char* call) const {
  if (result == CUPTI_SUCCESS) return;
  const char* text = nullptr;
  if (result_string(result, &text) != CUPTI_SUCCESS || text == nullptr) text = "unknown error";
  const char* what = advice(result);
  throw CountersUnavailable(what != nullptr ? fmt::format("{} ({}: {})", what, call, text)
                                            : fmt::format("{} failed: {}", call, text));
}

}  // namespace flashbench

#endif
