#pragma once

namespace flashbench {

/// bar.sync: `threads` threads meet at barrier `id` (0 belongs to __syncthreads). PTX ISA "Parallel
/// synchronization and communication instructions: bar, barrier".
__device__ __forceinline__ void bar_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// bar.arrive: counts this warp in at barrier `id` without waiting.
__device__ __forceinline__ void bar_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace flashbench
