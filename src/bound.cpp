#include "bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace flashbench {
namespace {

/// A time under this multiple of an empty launch says nothing about the work.
constexpr double kEmptyLaunches = 2;
/// Clocks are observed beside the work and not during it, counters have edges: what is above the
/// peak by less is not called impossible.
constexpr double kTolerance = 1.02;

Bound bound_of_unit(MatrixUnit unit) {
  return unit == MatrixUnit::fma_f32 ? Bound::fp32 : Bound::tensor;
}

}  // namespace

std::string_view to_string(Bound bound) {
  switch (bound) {
    case Bound::hbm: return "hbm";
    case Bound::tensor: return "tensor";
    case Bound::fp32: return "fp32";
    case Bound::exp: return "exp";
    case Bound::latency: return "latency";
  }
  return "?";
}

std::optional<StepBound> bound_of_step(const StepWork& work, const References& references,
                                       double empty_launch_s) {
  if (!(work.seconds > 0)) return std::nullopt;
  StepBound bound;
  bool any = false;
  const auto against = [&](Bound resource, double amount, std::optional<double> rate,
                           std::optional<double>& achieved, std::optional<double>& fraction) {
    if (!(amount > 0)) return;
    achieved = amount / work.seconds;
    if (!rate) return;
    fraction = *achieved / *rate;
    any = true;
    if (amount / *rate > bound.floor_s) {
      bound.floor_s = amount / *rate;
      bound.bound_by = resource;
    }
  };
  const double bytes = work.read_bytes + work.write_bytes;
  against(Bound::hbm, bytes, references.bandwidth(work.read_bytes, work.write_bytes),
          bound.hbm_bytes_per_s, bound.hbm_fraction);
  against(bound_of_unit(work.unit), work.unit == MatrixUnit::none ? 0 : work.matrix_flops,
          references.matrix_rate(work.unit), bound.matrix_flops_per_s, bound.matrix_fraction);
  against(Bound::exp, work.exps, references.rate(Reference::exp2), bound.exps_per_s,
          bound.exp_fraction);
  if (!any) return std::nullopt;
  if (bytes > 0 && work.matrix_flops > 0) bound.intensity = work.matrix_flops / bytes;
  if (work.seconds < kEmptyLaunches * empty_launch_s ||
      bound.floor_s < kLatencyShare * work.seconds) {
    bound.bound_by = Bound::latency;
  }
  return bound;
}

std::optional<PlanBound> bound_of_plan(std::span<const StepBound> steps,
                                       std::span<const double> seconds, double plan_s) {
  if (steps.empty() || steps.size() != seconds.size() || !(plan_s > 0)) return std::nullopt;
  PlanBound plan;
  std::map<Bound, double> spent;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    plan.floor_s += steps[i].floor_s;
    spent[steps[i].bound_by] += seconds[i];
  }
  plan.bound_by =
      std::ranges::max_element(spent, {}, [](const auto& entry) { return entry.second; })->first;
  plan.time_over_floor = plan_s / plan.floor_s;
  return plan;
}

ArchitecturePeak architecture_peak(int compute_capability, MatrixUnit unit) {
  // Dense operations a clock and SM, multiply and add counted as two: CUDA C++ Programming Guide,
  // table "Throughput of Native Arithmetic Instructions" (f32: lanes x 2; exp2: the
  // special-function row), and the architectures' white papers for tensor cores (A100: 312 TFLOP/s
  // at 1.41 GHz on 108 SMs; H100 SXM: 989 at 1.83 GHz on 132; B200 by the same ratio).
  struct Row {
    int first;  // compute capability from which it holds, up to the next row
    double f16;
    double bf16;
    double tf32;
    double f32;
    double exps;
  };
  static constexpr Row kRows[] = {
      {75, 1024, 0, 0, 128, 16},        {80, 2048, 2048, 1024, 128, 16},
      {86, 1024, 1024, 512, 256, 16},   {87, 2048, 2048, 1024, 256, 16},
      {89, 1024, 1024, 512, 256, 16},   {90, 4096, 4096, 2048, 256, 16},
      {100, 8192, 8192, 4096, 256, 16}, {103, 8192, 8192, 4096, 256, 32},
      {110, 8192, 8192, 4096, 256, 32}, {120, 1024, 1024, 512, 256, 16},
  };
  const Row* row = nullptr;
  for (const Row& candidate : kRows) {
    if (candidate.first <= compute_capability) row = &candidate;
  }
  if (row == nullptr || compute_capability >= 130) return {};
  ArchitecturePeak peak;
  peak.exps_per_clock_per_sm = row->exps;
  const auto known = [](double value) { return value > 0 ? std::optional(value) : std::nullopt; };
  switch (unit) {
    case MatrixUnit::none: break;
    case MatrixUnit::fma_f32: peak.matrix_flops_per_clock_per_sm = known(row->f32); break;
    case MatrixUnit::tensor_f16: peak.matrix_flops_per_clock_per_sm = known(row->f16); break;
    case MatrixUnit::tensor_bf16: peak.matrix_flops_per_clock_per_sm = known(row->bf16); break;
    case MatrixUnit::tensor_tf32: peak.matrix_flops_per_clock_per_sm = known(row->tf32); break;
  }
  return peak;
}

std::vector<std::string> impossibilities(const StepWork& work, const DeviceInfo& device,
                                         std::optional<double> sm_clock_hz) {
  std::vector<std::string> reasons;
  if (!(work.seconds > 0)) return reasons;
  // Up to a cache full of written bytes may reach memory after the step has ended.
  const double lingering = std::min(work.write_bytes, static_cast<double>(device.l2_bytes));
  const double bytes_per_s = (work.read_bytes + work.write_bytes - lingering) / work.seconds;
  if (work.bytes_measured && device.memory_peak_bytes_per_s > 0 &&
      bytes_per_s > kTolerance * device.memory_peak_bytes_per_s) {
    reasons.push_back(
        fmt::format("{:.3g} TB/s of measured traffic, and the memory's data-sheet "
                    "rate is {:.3g}",
                    bytes_per_s * 1e-12, device.memory_peak_bytes_per_s * 1e-12));
  }
  const double clock = sm_clock_hz.value_or(device.max_clock_hz);
  const double sm_clocks = clock * device.sm_count * work.seconds;
  if (device.kind != DeviceKind::cuda || !(sm_clocks > 0)) return reasons;
  const ArchitecturePeak peak = architecture_peak(device.compute_capability, work.unit);
  const double flops = work.matrix_flops / sm_clocks;
  if (peak.matrix_flops_per_clock_per_sm &&
      flops > kTolerance * *peak.matrix_flops_per_clock_per_sm) {
    reasons.push_back(
        fmt::format("{:.4g} operations a clock and SM at {:.0f} MHz, and the "
                    "architecture does {:.0f}",
                    flops, clock * 1e-6, *peak.matrix_flops_per_clock_per_sm));
  }
  return reasons;
}

}  // namespace flashbench
