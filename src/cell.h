#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bound.h"
#include "counters.h"
#include "device.h"
#include "exactness.h"
#include "implementation.h"
#include "load.h"
#include "problem.h"
#include "references.h"

namespace flashbench {

enum class Status : std::uint8_t { ok, unsupported, out_of_memory, wrong, failed, not_run };
std::string_view to_string(Status status);

/// Seconds of device time for one execution of the whole plan.
struct TimeStats {
  double median_s = 0;
  double min_s = 0;
  double max_s = 0;
  double ci_low_s = 0;  ///< 95 % confidence interval of the median
  double ci_high_s = 0;
  std::vector<double> samples_s;
  std::string stopped_by;             ///< precision | samples | time_limit | interrupted
  std::optional<double> sm_clock_hz;  ///< median of the clocks observed beside the samples
  double empty_launch_s = 0;          ///< the same measurement of a launch that does nothing
  bool too_short = false;             ///< not told from the empty launch
  bool throttled = false;             ///< that clock was well under the device's maximum
  /// When the sampling of its group had just ended; power is an average over some of it.
  std::optional<DeviceState> device_state;
};

/// One step of a cell's plan.
struct StepResult {
  std::string name;
  std::optional<double> median_s;
  std::optional<StepModel> model;
  std::optional<CounterFigures> measured;
  std::optional<StepBound> bound;       ///< against the references of the run
  std::vector<std::string> impossible;  ///< why the figures cannot be true; empty where they can
};

struct MemoryFigures {
  std::int64_t operand_bytes = 0;    ///< Q + K + V + O
  std::int64_t workspace_bytes = 0;  ///< of this implementation
  std::int64_t peak_bytes = 0;       ///< operands + workspace: what running it alone takes
  std::optional<std::int64_t> driver_peak_bytes;  ///< the driver's own count of the same
  std::int64_t needed_bytes = 0;                  ///< what the harness needs to run the cell
  std::int64_t free_bytes = 0;                    ///< what was free when it decided
};

struct Ratio {
  double ratio = 0;
  double low = 0;  ///< 95 % confidence interval
  double high = 0;
};

/// What the harness reads between two series of the very same plan.
struct NoiseFloor {
  Ratio ratio;          ///< 99 % interval of the paired ratio of one plan with itself
  bool stable = false;  ///< the interval covers 1
};

/// One problem x one implementation, with its outcome.
struct Cell {
  Problem problem;
  std::string implementation;
  Kind kind = Kind::naive;
  Status status = Status::not_run;
  std::optional<std::string> reason;
  std::optional<Exactness> exactness;
  std::optional<TimeStats> time;
  std::vector<StepResult> steps;
  std::optional<std::string> model_reason;     ///< why steps have no model
  std::optional<std::string> measured_reason;  ///< why steps have no measured traffic
  MemoryFigures memory;
  std::map<std::string, std::string> choices;  ///< Plan::choices
  std::optional<Ratio> speedup_over_naive;     ///< paired samples; above 1 is faster
  std::optional<PlanCounters> counters;        ///< of the whole plan, and of its steps
  std::optional<PlanBound> bound;
};

/// automatic: hardware counters where they can be had. on: the run fails without them.
enum class CounterMode : std::uint8_t { automatic, on, off };
std::string_view to_string(CounterMode mode);

struct Settings {
  CacheState cache = CacheState::cold;
  Load load = Load::burst;
  Distribution distribution = Distribution::normal;
  std::int64_t samples = 0;  ///< per cell at most; 0 for the default
  double time_limit_s = 1;   ///< of sampling, per cell
  double precision = 0.005;  ///< relative half-width of the median's interval that ends sampling
  std::uint64_t seed = 0;
  CounterMode counters = CounterMode::automatic;
  bool references = true;    ///< measure them at the start, and again as the run goes on
  bool noise_floor = false;  ///< time one implementation against itself first
};

/// A whole run: what the JSON document holds.
struct Run {
  std::vector<std::string> command;
  std::string started_utc;  ///< ISO 8601
  bool interrupted = false;
  DeviceInfo device;
  Settings settings;
  std::optional<References> references;
  std::optional<NoiseFloor> noise_floor;
  std::vector<std::string> warnings;  ///< said once each
  std::vector<Cell> cells;
};

}  // namespace flashbench
