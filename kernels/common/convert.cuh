#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>

namespace flashbench {

/// Conversions between the storage types and float; to storage they round to nearest even.
__device__ __forceinline__ float to_float(float x) {
  return x;
}
__device__ __forceinline__ float to_float(__half x) {
  return __half2float(x);
}
__device__ __forceinline__ float to_float(__nv_bfloat16 x) {
  return __bfloat162float(x);
}

template <class Element>
__device__ __forceinline__ Element from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ __half from_float<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

/// Two elements in one register, `low` in the low half. One instruction from sm_80 on.
template <class Element>
__device__ __forceinline__ std::uint32_t pack2(float low, float high);
template <>
__device__ __forceinline__ std::uint32_t pack2<__half>(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  std::uint32_t bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}
template <>
__device__ __forceinline__ std::uint32_t pack2<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  std::uint32_t bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}

/// Sixteen bytes of elements in four registers, loaded and stored by one instruction. Registers
/// hold whole words: an array of 16-bit elements would be given one register for each.
template <class Element>
struct alignas(16) Vector {
  static constexpr int kSize = 16 / static_cast<int>(sizeof(Element));
  static constexpr int kPerWord = 4 / static_cast<int>(sizeof(Element));
  std::uint32_t word[4];

  __device__ __forceinline__ float get(int e) const {
    if constexpr (kPerWord == 1) {
      return __uint_as_float(word[e]);
    } else {
      const auto bits = static_cast<unsigned short>(word[e / 2] >> (16 * (e % 2)));
      Element element;
      memcpy(&element, &bits, sizeof bits);
      return to_float(element);
    }
  }
  /// Elements 2 i and 2 i + 1.
  __device__ __forceinline__ void set2(int i, float low, float high) {
    if constexpr (kPerWord == 1) {
      word[2 * i] = __float_as_uint(low);
      word[2 * i + 1] = __float_as_uint(high);
    } else {
      word[i] = pack2<Element>(low, high);
    }
  }
};

}  // namespace flashbench
