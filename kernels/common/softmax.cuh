#pragma once

#include <cuda_runtime.h>

namespace flashbench {

constexpr float kLog2E = 1.4426950408889634F;
constexpr float kLn2 = 0.6931471805599453F;

/// 2^x, relative error below 2^-22 (PTX ISA, "Floating Point Instructions: ex2"); results under
/// 2^-126 become 0. 2^-infinity is 0.
__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Reductions over aligned groups of kLanes lanes; every lane gets the result. All 32 lanes must
/// call.
template <int kLanes>
__device__ __forceinline__ float group_max(float x) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, step));
  }
  return x;
}

template <int kLanes>
__device__ __forceinline__ float group_sum(float x) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffU, x, step);
  return x;
}

}  // namespace flashbench
