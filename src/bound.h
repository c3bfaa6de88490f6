#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device.h"
#include "implementation.h"
#include "references.h"

namespace flashbench {

/// What limits a step.
enum class Bound : std::uint8_t { hbm, tensor, fp32, exp, latency };
std::string_view to_string(Bound bound);

/// What one step did, and how long it took.
struct StepWork {
  double seconds = 0;
  double read_bytes = 0;  ///< HBM, by the counters where there are some, else by the model
  double write_bytes = 0;
  bool bytes_measured = false;
  MatrixUnit unit = MatrixUnit::none;
  double matrix_flops = 0;  ///< executed
  double exps = 0;
};

/// A step against the references of its run. Fractions are of the reference and may pass 1; absent
/// where the step does none of it or the run has no such reference.
struct StepBound {
  Bound bound_by = Bound::latency;
  double floor_s = 0;  ///< largest of bytes/bandwidth, flops/rate, exps/rate
  std::optional<double> hbm_bytes_per_s;
  std::optional<double> hbm_fraction;
  std::optional<double> matrix_flops_per_s;
  std::optional<double> matrix_fraction;
  std::optional<double> exps_per_s;
  std::optional<double> exp_fraction;
  std::optional<double> intensity;  ///< matrix operations a byte of HBM traffic
};

/// A step whose busiest resource stays under this share of its reference is bound by none of them.
inline constexpr double kLatencyShare = 0.3;

/// The rule. Each resource alone would need: HBM its bytes over the bandwidth of that mix of reads
/// and writes, the matrix unit its operations over the reference of that unit and dtype, the
/// special-function unit its exponentials over the exp2 reference. The largest of these times is
/// the floor, and its resource the bound: hbm, tensor or fp32 (by the unit), exp. Unless
/// - the step took less than twice an empty launch, or
/// - the floor is under kLatencyShare of its time:
/// then it is bound by latency, which stands for all that none of the three rates describes
/// (launches, dependencies, too little work in flight, other instructions).
/// Nothing where no reference applies or the time is not positive.
std::optional<StepBound> bound_of_step(const StepWork& work, const References& references,
                                       double empty_launch_s);

/// A plan as the sequence of its steps.
struct PlanBound {
  Bound bound_by = Bound::latency;  ///< the bound of most of the time
  double floor_s = 0;               ///< sum of the steps' floors: steps do not overlap
  double time_over_floor = 0;
};
/// `steps` and `seconds` go together; `plan_s` is the time of the whole plan.
std::optional<PlanBound> bound_of_plan(std::span<const StepBound> steps,
                                       std::span<const double> seconds, double plan_s);

/// The most that an architecture can do, by its maker's tables. Absent where unknown.
struct ArchitecturePeak {
  std::optional<double> matrix_flops_per_clock_per_sm;
  std::optional<double> exps_per_clock_per_sm;
};
ArchitecturePeak architecture_peak(int compute_capability, MatrixUnit unit);

/// Why a step's figures cannot be true: rates above what the device could do at all (operations a
/// clock and SM at `sm_clock_hz`, the observed clock, or the maximum where there is none; the
/// memory's data-sheet rate, for measured bytes). Such a step is marked invalid and no rate of it
/// is printed. Empty where all is possible.
std::vector<std::string> impossibilities(const StepWork& work, const DeviceInfo& device,
                                         std::optional<double> sm_clock_hz);

}  // namespace flashbench
