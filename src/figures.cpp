#include "figures.h"

#include <array>
#include <utility>

namespace flashbench {

namespace {

/// The matrix unit that the counters saw at work, and its operations.
void take_counted_operations(const CounterFigures& counted, StepWork& work) {
  const std::array<std::pair<MatrixUnit, std::optional<double>>, 3> units{
      std::pair(MatrixUnit::tensor_bf16, counted.tensor_bf16_ops),
      std::pair(MatrixUnit::tensor_f16, counted.tensor_f16_ops),
      std::pair(MatrixUnit::tensor_tf32, counted.tensor_tf32_ops)};
  for (const auto& [unit, operations] : units) {
    if (operations.value_or(0) <= work.matrix_flops) continue;
    work.unit = unit;
    work.matrix_flops = *operations;
  }
  work.exps = counted.special_ops.value_or(0);
}

/// A step for the rule of bound.h, or nothing where its time or its work is unknown. Work is the
/// model's, bytes are the counters' where there are some; what has no model is what the counters
/// saw it do.
std::optional<StepWork> work_of(const StepResult& step) {
  if (!step.median_s || (!step.model && !step.measured)) return std::nullopt;
  StepWork work;
  work.seconds = *step.median_s;
  if (step.model) {
    work.read_bytes = static_cast<double>(step.model->read_bytes);
    work.write_bytes = static_cast<double>(step.model->write_bytes);
    work.unit = step.model->unit;
    work.matrix_flops = step.model->matrix_flops;
    work.exps = step.model->exps;
  } else {
    take_counted_operations(*step.measured, work);
  }
  if (step.measured) {
    work.read_bytes = step.measured->read_bytes;
    work.write_bytes = step.measured->write_bytes;
    work.bytes_measured = true;
  }
  return work;
}

const CounterFigures& counted_step(const PlanCounters& counters, std::size_t step) {
  return counters.steps.empty() ? counters.whole : counters.steps.at(step);
}

}  // namespace

void derive_figures(Cell& cell, std::span<const std::string> step_names,
                    const Measurements& measured, const References* references,
                    const DeviceInfo& device) {
  cell.counters = measured.counters;
  cell.steps.clear();
  std::vector<StepBound> bounds;
  std::vector<double> seconds;
  for (std::size_t i = 0; i < step_names.size(); ++i) {
    StepResult step;
    step.name = step_names[i];
    if (!measured.step_seconds.empty()) step.median_s = measured.step_seconds.at(i);
    if (measured.models) step.model = measured.models->at(i);
    if (measured.counters) step.measured = counted_step(*measured.counters, i);
    if (const auto work = work_of(step)) {
      step.impossible = impossibilities(*work, device, cell.time->sm_clock_hz);
      if (references != nullptr && step.impossible.empty()) {
        step.bound = bound_of_step(*work, *references, cell.time->empty_launch_s);
      }
    }
    if (step.bound) {
      bounds.push_back(*step.bound);
      seconds.push_back(*step.median_s);
    }
    cell.steps.push_back(std::move(step));
  }
  cell.bound.reset();
  if (!bounds.empty() && bounds.size() == cell.steps.size()) {
    cell.bound = bound_of_plan(bounds, seconds, cell.time->median_s);
  }
}

}  // namespace flashbench
