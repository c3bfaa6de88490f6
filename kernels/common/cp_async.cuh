#pragma once

#include <cstdint>

namespace flashbench {

/// Copies 16 bytes from global to shared memory without passing through registers (L1 bypassed);
/// only the first `valid` bytes are read, the rest of the destination is zero. Both addresses
/// 16-byte aligned. PTX ISA, "Data Movement and Conversion Instructions: cp.async". sm_80.
__device__ __forceinline__ void cp_async_16(std::uint32_t shared, const void* global, int valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global),
               "r"(valid)
               : "memory");
}

/// Closes the group of this thread's copies issued since the last commit ("cp.async.commit_group").
__device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits until at most kPending of this thread's groups are unfinished ("cp.async.wait_group").
/// Other threads' copies are visible only after a barrier that follows their waits.
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace flashbench
