#pragma once

#include <cstdint>

namespace flashbench {

/// A generic pointer into shared memory as the 32-bit address that the instructions below take.
__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Four 8x8 matrices of 16-bit elements: lanes 8i..8i+7 give the 16-byte rows of matrix i, and r[i]
/// gets its elements [lane / 4][2 (lane % 4) ..+1]. PTX ISA, "Warp-level matrix load instruction:
/// ldmatrix". sm_75. volatile and the memory clobber keep it between the barriers that guard the
/// tile.
__device__ __forceinline__ void ldmatrix_x4(std::uint32_t (&r)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

/// The same with each matrix transposed: r[i] gets elements [2 (lane % 4) ..+1][lane / 4].
__device__ __forceinline__ void ldmatrix_x4_trans(std::uint32_t (&r)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

}  // namespace flashbench
