#pragma once

#include <memory>
#include <span>

#include "device.h"
#include "dtype.h"
#include "references.h"

namespace flashbench {

/// Copy, read and write bandwidth, f32 fused multiply-adds, exp2, and cuBLAS products of the
/// dtypes (f32 without TF32, and TF32 beside it) on random data. Takes 128 times the last-level
/// cache of device memory where there is room, and gives it back with the bench. Throws
/// OutOfMemory.
std::unique_ptr<ReferenceBench> make_cuda_reference_bench(Device& device,
                                                          std::span<const Dtype> dtypes);

}  // namespace flashbench
