#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <string>

#include "error.h"
#include "kernels/common/cuda_check.h"
#include "tensor.h"

namespace flashbench {

/// The map for TMA copies of a 16-bit tensor [batch, rows, heads, head_dim] by boxes of `box_rows`
/// rows x 64 columns of one head: dimensions {head_dim, rows, heads, batch}, 128-byte swizzle, so
/// that a box fills box_rows x 128 B of shared memory, 16-byte chunk c of row r at chunk c ^ (r &
/// 7). Out of range reads zero. The address and the strides in bytes must be multiples of 16. The
/// driver's encoder comes through the runtime, so that nothing links to libcuda. Throws Error. CUDA
/// driver API, "Tensor Map Object Management".
inline CUtensorMap encode_tensor_map(const Tensor& tensor, int box_rows) {
  void* symbol = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &symbol, 12000,
                                              cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess) {
    throw Error("this driver has no cuTensorMapEncodeTiled; CUDA 12 or newer is needed");
  }
  const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(symbol);

  constexpr cuuint64_t kElementBytes = 2;
  const auto size = [&](std::size_t i) { return static_cast<cuuint64_t>(tensor.shape[i]); };
  const auto stride = [&](std::size_t i) {
    return static_cast<cuuint64_t>(tensor.stride[i]) * kElementBytes;
  };
  const std::array<cuuint64_t, 4> sizes{size(3), size(1), size(2), size(0)};
  const std::array<cuuint64_t, 3> strides{stride(1), stride(2), stride(0)};
  const std::array<cuuint32_t, 4> box{64, static_cast<cuuint32_t>(box_rows), 1, 1};
  const std::array<cuuint32_t, 4> steps{1, 1, 1, 1};
  const auto type = tensor.dtype == Dtype::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  CUtensorMap map;
  const CUresult result =
      encode(&map, type, 4, tensor.data, sizes.data(), strides.data(), box.data(), steps.data(),
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw Error("cuTensorMapEncodeTiled refused a tensor (CUresult " + std::to_string(result) +
                "): address and strides must be multiples of 16 bytes");
  }
  return map;
}

}  // namespace flashbench
