#pragma once

#include <functional>
#include <memory>
#include <span>

#include "device.h"
#include "implementation.h"
#include "oracle.h"
#include "range_profiler.h"
#include "references.h"

namespace flashbench {

/// Everything that runs on one device. cli puts it together; tests hand in fakes.
struct Backend {
  std::unique_ptr<Device> device;
  std::unique_ptr<Oracle> oracle;
  Catalogue catalogue;  ///< the preferred implementation of a kind first
  /// The device's hardware counters; throws CountersUnavailable. Null where the kind of device has
  /// none.
  std::function<std::unique_ptr<RangeProfiler>(Device&)> open_profiler;
  /// Reference works for problems of these dtypes; their buffers live as long as the bench. Throws
  /// OutOfMemory. Null where there are none.
  std::function<std::unique_ptr<ReferenceBench>(Device&, std::span<const Dtype>)> open_references;
};

/// On the CPU (reference/backend.cpp).
Backend make_cpu_backend();

/// On the CUDA device that is current (kernels/backend.cpp); throws Error with the reason where
/// there is none.
Backend make_cuda_backend();

}  // namespace flashbench
