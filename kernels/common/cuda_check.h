#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "error.h"

namespace flashbench {

/// After these errors the context is lost: every later call of this process fails too
/// (CUDA runtime API, section "Error handling", the codes described as "leaves the process in an
/// inconsistent state").
inline bool is_sticky(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorExternalDevice: return true;
    default: return false;
  }
}

/// Throws what `error` means: DeviceLost where nothing more can be expected of the device,
/// OutOfMemory (needed unknown, so 0; the caller that knows it should throw its own), Error
/// otherwise. The message is "cudaFoo(...) failed at file:line: cudaErrorName (what it means)".
[[noreturn]] inline void throw_cuda_error(cudaError_t error, const char* call, const char* file,
                                          int line) {
  const std::string message = std::string(call) + " failed at " + file + ":" +
                              std::to_string(line) + ": " + cudaGetErrorName(error) + " (" +
                              cudaGetErrorString(error) + ")";
  if (is_sticky(error)) throw DeviceLost(message);
  cudaGetLastError();  // not sticky: leave no trace for the next launch's check
  if (error == cudaErrorMemoryAllocation) {
    std::size_t free = 0;
    std::size_t total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) cudaGetLastError();
    throw OutOfMemory(message, 0, static_cast<std::int64_t>(free));
  }
  throw Error(message);
}

inline void check_cuda(cudaError_t error, const char* call, const char* file, int line) {
  if (error != cudaSuccess) throw_cuda_error(error, call, file, line);
}

}  // namespace flashbench

/// The one check round every CUDA runtime call, and round cuBLAS calls where cublas_check.h is
/// included. Throws Error, OutOfMemory or DeviceLost.
#define CUDA_CHECK(...) ::flashbench::check_cuda((__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)
