#pragma once

#include <string_view>

#include "implementation.h"
#include "problem.h"

namespace flashbench {

/// A named stretch of host time for NVIDIA's profilers: a push/pop range of the NVTX domain
/// "flashbench", nested as cell > phase > step. Ends with the object, on the thread that made it.
/// Without a profiler, and in a build without nvtx3, it costs a look at one pointer.
class Range {
 public:
  explicit Range(std::string_view name);
  /// With the problem as payload: a record of its sizes, dtype, mask and scale, each under its
  /// name, as Nsight Systems shows it.
  Range(std::string_view name, const Problem& problem);
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
  ~Range();

 private:
  bool pushed_ = false;
};

/// Enqueues the plan with each step inside a range of its name. Not for timed regions.
void enqueue_annotated(const Plan& plan, Stream stream);

/// Whether the build has nvtx3 at all.
bool annotations_built();

}  // namespace flashbench
