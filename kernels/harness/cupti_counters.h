#pragma once

#include <memory>
#include <string>

#include "range_profiler.h"

namespace flashbench {

/// What the profiler is told of the device that it works on.
struct CuptiTarget {
  void* context = nullptr;  ///< CUcontext
  int device = 0;           ///< its ordinal
};

/// The counters of `device`, a CUDA device, through CUPTI's range profiler (user ranges, user
/// replay). `library`: the CUPTI to load; empty for FLASHBENCH_CUPTI's, or else wherever CUDA
/// toolkits put it. `target`: the device's context. Throws CountersUnavailable.
std::unique_ptr<RangeProfiler> make_cupti_profiler(Device& device, const CuptiTarget& target,
                                                   const std::string& library = {});

/// The same for the context that is current.
std::unique_ptr<RangeProfiler> make_cupti_profiler(Device& device);

}  // namespace flashbench
