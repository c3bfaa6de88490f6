#include "device_choice.h"

#include <fmt/format.h>

#include <cstdio>

#include "error.h"
#ifdef FLASHBENCH_CUDA
#include "kernels/catalogue.h"
#endif

namespace flashbench {
namespace {

#ifdef FLASHBENCH_CUDA
constexpr bool kBuiltWithCuda = true;
Backend cuda_backend() {
  return make_cuda_backend();
}
#else
constexpr bool kBuiltWithCuda = false;
Backend cuda_backend() {
  throw Error("this program was built without CUDA: install nvcc 12.4 or newer and build again");
}
#endif

}  // namespace

bool built_with_cuda() {
  return kBuiltWithCuda;
}

Catalogue built_cuda_catalogue() {
#ifdef FLASHBENCH_CUDA
  return cuda_catalogue();
#else
  return {};
#endif
}

std::optional<std::string> cuda_obstacle() {
  try {
    cuda_backend();
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

Backend open_backend(DeviceChoice choice) {
  if (choice == DeviceChoice::cpu) return make_cpu_backend();
  if (choice == DeviceChoice::cuda) return cuda_backend();
  if (!kBuiltWithCuda) {
    fmt::print(stderr, "flashbench: running on the CPU: this build has no CUDA\n");
    return make_cpu_backend();
  }
  try {
    return cuda_backend();
  } catch (const Error& error) {
    fmt::print(stderr, "flashbench: running on the CPU: {}\n", error.what());
    return make_cpu_backend();
  }
}

}  // namespace flashbench
