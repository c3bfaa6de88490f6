#pragma once

#include <memory>
#include <span>

#include "device.h"
#include "dtype.h"
#include "references.h"

namespace flashbench {

/// Copy, read and write bandwidth of all cores together, and OpenBLAS' f32 product on normal data.
/// A CPU has no unit of its own for exponentials, so no rate of them. Throws OutOfMemory.
std::unique_ptr<ReferenceBench> make_cpu_reference_bench(Device& device,
                                                         std::span<const Dtype> dtypes);

}  // namespace flashbench
