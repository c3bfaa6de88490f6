#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace flashbench {

/// D = A B + D on one warp: A 16x16 row-major, B 16x8 column-major, D 16x8 in float32. sm_80.
/// With g = lane / 4 and t = lane % 4 a thread holds (PTX ISA, "Matrix fragments for
/// mma.m16n8k16"):
///   a[0], a[2]: A[g][2t..2t+1], A[g][2t+8..2t+9];  a[1], a[3]: the same of row g + 8
///   b0, b1:     B[2t..2t+1][g], B[2t+8..2t+9][g]
///   d[0..1]:    D[g][2t..2t+1];                    d[2..3]: the same of row g + 8
/// so D of two neighbouring n-tiles, packed in pairs, is the A fragment of a following product.
template <class Element>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const std::uint32_t (&a)[4],
                                             std::uint32_t b0, std::uint32_t b1);

// PTX ISA, "Multiply-and-Accumulate Instruction: mma". No memory is touched, so no clobber.
template <>
__device__ __forceinline__ void mma_m16n8k16<__nv_bfloat16>(float (&d)[4],
                                                            const std::uint32_t (&a)[4],
                                                            std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ __forceinline__ void mma_m16n8k16<__half>(float (&d)[4], const std::uint32_t (&a)[4],
                                                     std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace flashbench
