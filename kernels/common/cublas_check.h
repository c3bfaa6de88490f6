#pragma once

#include <cublas_v2.h>

#include <string>

#include "kernels/common/cuda_check.h"

namespace flashbench {

/// CUDA_CHECK round a cuBLAS call. Throws DeviceLost when the context is lost, OutOfMemory, or
/// Error.
inline void check_cuda(cublasStatus_t status, const char* call, const char* file, int line) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  // cuBLAS reports a fault of an earlier launch as its own failure: the runtime knows better.
  const cudaError_t cause = cudaGetLastError();
  if (cause != cudaSuccess) throw_cuda_error(cause, call, file, line);
  if (status == CUBLAS_STATUS_ALLOC_FAILED) {
    throw_cuda_error(cudaErrorMemoryAllocation, call, file, line);
  }
  throw Error(std::string(call) + " failed at " + file + ":" + std::to_string(line) + ": " +
              cublasGetStatusName(status) + " (" + cublasGetStatusString(status) + ")");
}

}  // namespace flashbench
