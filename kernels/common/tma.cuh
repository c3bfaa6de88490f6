#pragma once

#include <cuda.h>

#include <cstdint>

// Tensor memory accelerator: one thread copies a box of a tensor, PTX ISA "Data movement and
// conversion instructions: cp.async.bulk.tensor". Coordinates count elements, the fastest dimension
// first; what lies outside the tensor reads as zero and is not written.

namespace flashbench {

/// prefetch.tensormap: brings the descriptor into its cache.
__device__ inline void prefetch_tensormap(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// cp.async.bulk.tensor.4d, global to shared; the bytes (those outside the tensor too) count on
/// `barrier`.
__device__ inline void cp_async_bulk_tensor_4d(std::uint32_t to, const CUtensorMap& map, int x0,
                                               int x1, int x2, int x3, std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
      "l"(&map), "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(barrier)
      : "memory");
}

/// cp.async.bulk.tensor.4d, shared to global; completes with its bulk group.
__device__ inline void cp_async_bulk_tensor_4d(const CUtensorMap& map, int x0, int x1, int x2,
                                               int x3, std::uint32_t from) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::
          "l"(&map),
      "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(from)
      : "memory");
}

/// cp.async.bulk.commit_group: closes the group of the stores that this thread issued.
__device__ inline void cp_async_bulk_commit_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/// cp.async.bulk.wait_group.read 0: shared memory of all closed groups has been read and may be
/// reused.
__device__ inline void cp_async_bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

/// fence.proxy.async: orders this thread's ordinary shared-memory writes before later accesses by
/// the asynchronous proxy (bulk copies, wgmma), PTX ISA "membar / fence".
__device__ inline void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace flashbench
