#pragma once

#include <cstdint>

// Barriers in shared memory that count arrivals and bytes, PTX ISA "Parallel synchronization and
// communication instructions: mbarrier". Addresses are those of shared_address(). A barrier's
// phases alternate in parity; waiting for parity 1 of a new barrier returns at once.

namespace flashbench {

/// mbarrier.init: `arrivals` complete a phase.
__device__ inline void mbarrier_init(std::uint32_t barrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/// fence.mbarrier_init: makes the initialisation visible to the asynchronous proxy.
__device__ inline void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// mbarrier.arrive, release at CTA scope.
__device__ inline void mbarrier_arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// mbarrier.arrive.expect_tx: arrives, and the phase also awaits `bytes` of bulk copies.
__device__ inline void mbarrier_arrive_expect_tx(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

/// mbarrier.try_wait.parity: whether the phase of that parity has completed; may suspend the thread
/// for a while.
__device__ inline bool mbarrier_try_wait_parity(std::uint32_t barrier, std::uint32_t parity) {
  std::uint32_t done;
  asm volatile(
      "{\n.reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}\n"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

/// Waits for the phase of that parity, acquire at CTA scope. No trap on a time-out: inside this
/// loop it makes ptxas give up the register budget of setmaxnreg; a host that waits too long must
/// find out by itself.
__device__ inline void mbarrier_wait(std::uint32_t barrier, std::uint32_t parity) {
  while (!mbarrier_try_wait_parity(barrier, parity)) {
  }
}

}  // namespace flashbench
