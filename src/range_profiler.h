#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "device.h"
#include "error.h"

namespace flashbench {

/// What hardware counters count, over the whole device.
enum class Quantity : std::uint8_t {
  dram_read_bytes,
  dram_write_bytes,
  l2_bytes,         ///< requested from the last-level cache, from whatever side
  tensor_bf16_ops,  ///< executed on tensor cores; multiply and add are two
  tensor_f16_ops,
  tensor_tf32_ops,
  f32_ops,        ///< executed by the f32 pipes; a fused multiply-add is two
  special_ops,    ///< of the special-function unit, a thread each: exp2, and conversions
  tensor_active,  ///< busy share of the tensor pipes, 0 to 1
  duration_s,
};
std::string_view to_string(Quantity quantity);

/// Quantities that the device has no counter for are absent.
using Counts = std::map<Quantity, double>;

/// Work to be counted: `prepare` runs before the range opens and is not counted, the device is idle
/// when it opens and when it closes.
struct CountedRange {
  Enqueue prepare;
  Enqueue body;
};

/// Counters cannot be had here; the message says why and what a person can do about it.
struct CountersUnavailable : Error {
  using Error::Error;
};

/// Counts of ranges of device work.
class RangeProfiler {
 public:
  RangeProfiler() = default;
  RangeProfiler(const RangeProfiler&) = delete;
  RangeProfiler& operator=(const RangeProfiler&) = delete;
  virtual ~RangeProfiler() = default;

  struct Result {
    std::vector<Counts> ranges;  ///< as the ranges came in
    int passes = 0;              ///< how often all of them ran: few counters fit the chip at once
  };

  /// Runs all ranges once a pass, on the device's stream. Throws CountersUnavailable where the
  /// counters were taken away (another profiler), and whatever the work throws.
  virtual Result profile(std::span<const Quantity> quantities,
                         std::span<const CountedRange> ranges) = 0;
};

}  // namespace flashbench
