#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "dtype.h"

namespace flashbench {

/// Reads `bytes`, a multiple of 64 KiB, once; the sum goes to `sink` only if it is a number that it
/// is not.
void launch_reference_read(const void* data, std::size_t bytes, std::uint32_t* sink,
                           cudaStream_t stream);
/// Writes `bytes`, a multiple of 64 KiB, once.
void launch_reference_write(void* data, std::size_t bytes, cudaStream_t stream);

/// Fused multiply-adds of f32, all SMs busy, operands in registers. Returns their number.
double launch_reference_fma(int sm_count, std::uint32_t* sink, cudaStream_t stream);
/// exp2 by the special-function unit. Returns the number of exponentials.
double launch_reference_exp2(int sm_count, std::uint32_t* sink, cudaStream_t stream);

/// Standard normal values: what a matrix product costs in power, and so in clock, depends on its
/// data.
void launch_fill_normal(void* data, Dtype dtype, std::size_t count, std::uint32_t seed,
                        cudaStream_t stream);

}  // namespace flashbench
