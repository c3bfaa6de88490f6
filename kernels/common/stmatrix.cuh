#pragma once

#include <cstdint>

namespace flashbench {

/// Four 8x8 matrices of 16-bit elements: lanes 8i..8i+7 give the 16-byte rows of matrix i, whose
/// elements [lane / 4][2 (lane % 4) ..+1] come from r[i]. PTX ISA "Warp-level matrix store
/// instruction: stmatrix". sm_90.
__device__ __forceinline__ void stmatrix_x4(std::uint32_t address, const std::uint32_t (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

}  // namespace flashbench
