#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device.h"
#include "dtype.h"
#include "implementation.h"
#include "range_profiler.h"

namespace flashbench {

/// What the counters say of one execution: means over the repeats.
struct CounterFigures {
  double read_bytes = 0;  ///< from HBM
  /// To HBM, what the execution leaves dirty in the cache included. Not under 0.
  double write_bytes = 0;
  double read_spread_bytes = 0;  ///< largest repeat less smallest
  double write_spread_bytes = 0;
  /// How far write_bytes can be off because the eviction's own writes were subtracted: the spread
  /// of those.
  double write_uncertainty_bytes = 0;
  std::optional<double> l2_bytes;
  std::optional<double> tensor_bf16_ops;
  std::optional<double> tensor_f16_ops;
  std::optional<double> tensor_tf32_ops;
  std::optional<double> f32_ops;
  std::optional<double> special_ops;    ///< threads' operations of the special-function unit
  std::optional<double> tensor_active;  ///< busy share of the tensor pipes, 0 to 1
  /// With the profiler on, at whatever clock it leaves: for rates of this pass, not to be quoted.
  std::optional<double> duration_s;
};

struct PlanCounters {
  CounterFigures whole;
  /// Of a plan with several steps, else empty. Each step meets the cache as its predecessors left
  /// it, so that they add up to the whole.
  std::vector<CounterFigures> steps;
  int repeats = 0;
  int passes = 0;  ///< executions that one repeat took, by what fits the counters at once
};

/// Counts plans in a pass of its own, untimed.
///
/// Reads and everything else: clean cache, predecessors, range { step }. Written bytes linger in
/// the last-level cache, so they get a range of their own: clean cache, range { steps up to this
/// one, eviction }, less the writes of the same without this step (for the first: of range
/// { eviction }). The cache is cleaned by reading memory that belongs to nobody
/// (Device::flush_cache()), so that no range is charged for its predecessor's dirty lines.
class Counters {
 public:
  using Open = std::function<std::unique_ptr<RangeProfiler>(Device&)>;

  /// Nothing is opened before it is needed. `open` may be null: no counters on such a device.
  Counters(Device& device, Open open) : device_(device), open_(std::move(open)) {}

  /// Opens the counters if that has not been tried. False: reason() says why not.
  bool available();
  /// One clause, where they are not available.
  const std::string& reason() const { return reason_; }

  /// Nothing where the counters are not available, or were lost during the pass: reason() says why.
  /// Throws what the plan throws. The plan has run before, and is left having run as a whole.
  std::optional<PlanCounters> measure(const Plan& plan, Dtype dtype);

 private:
  PlanCounters count(const Plan& plan, Dtype dtype);

  Device& device_;
  Open open_;
  std::unique_ptr<RangeProfiler> profiler_;
  bool tried_ = false;
  std::string reason_;
};

}  // namespace flashbench
