#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "executed.h"
#include "report.h"
#include "report_parts.h"

namespace flashbench {
namespace {

Json device_state(const std::optional<DeviceState>& state) {
  if (!state) return nullptr;
  Json out;
  put(out, "power_w", state->power_w);
  put(out, "power_limit_w", state->power_limit_w);
  put(out, "temperature_c", state->temperature_c);
  put(out, "sm_clock_hz", state->sm_clock_hz);
  out["throttle_reasons"] = or_null(state->throttle_reasons);
  return out;
}

Json time(const std::optional<TimeStats>& time) {
  if (!time) return nullptr;
  Json out;
  put(out, "median_s", time->median_s);
  put(out, "min_s", time->min_s);
  put(out, "max_s", time->max_s);
  put(out, "ci_low_s", time->ci_low_s);
  put(out, "ci_high_s", time->ci_high_s);
  out["samples_s"] = time->samples_s;
  out["stopped_by"] = time->stopped_by;
  put(out, "sm_clock_hz", time->sm_clock_hz);
  put(out, "empty_launch_s", time->empty_launch_s);
  out["too_short"] = time->too_short;
  out["throttled"] = time->throttled;
  out["device_state"] = device_state(time->device_state);
  return out;
}

Json bound(const std::optional<StepBound>& bound) {
  if (!bound) return nullptr;
  Json out{{"bound_by", to_string(bound->bound_by)}};
  put(out, "floor_s", bound->floor_s);
  put(out, "hbm_bytes_per_s", bound->hbm_bytes_per_s);
  put(out, "hbm_fraction", bound->hbm_fraction);
  put(out, "matrix_flops_per_s", bound->matrix_flops_per_s);
  put(out, "matrix_fraction", bound->matrix_fraction);
  put(out, "exps_per_s", bound->exps_per_s);
  put(out, "exp_fraction", bound->exp_fraction);
  put(out, "intensity", bound->intensity);
  return out;
}

Json steps(const Cell& cell) {
  Json out = Json::array();
  for (const StepResult& step : cell.steps) {
    Json one{{"name", step.name}};
    put(one, "median_s", step.median_s);
    one["bound"] = bound(step.bound);
    one["impossible"] = step.impossible;
    out.push_back(one);
  }
  return out;
}

std::string_view name_of(MatrixUnit unit) {
  switch (unit) {
    case MatrixUnit::none: return "none";
    case MatrixUnit::fma_f32: return "fma_f32";
    case MatrixUnit::tensor_f16: return "tensor_f16";
    case MatrixUnit::tensor_bf16: return "tensor_bf16";
    case MatrixUnit::tensor_tf32: return "tensor_tf32";
  }
  return "?";
}

Json model_step(const StepModel& step) {
  Json out{{"name", step.name},
           {"read_bytes", step.read_bytes},
           {"write_bytes", step.write_bytes},
           {"unit", name_of(step.unit)}};
  put_count(out, "matrix_flops", step.matrix_flops);
  put_count(out, "exps", step.exps);
  return out;
}

struct ModelBytes {
  std::int64_t read = 0;
  std::int64_t write = 0;
  double total() const { return static_cast<double>(read) + static_cast<double>(write); }
};

/// The sums over a cell's steps; nothing where one of them has no model.
std::optional<ModelBytes> model_bytes(const Cell& cell) {
  if (cell.steps.empty()) return std::nullopt;
  ModelBytes bytes;
  for (const StepResult& step : cell.steps) {
    if (!step.model) return std::nullopt;
    bytes.read += step.model->read_bytes;
    bytes.write += step.model->write_bytes;
  }
  return bytes;
}

Json model(const Cell& cell) {
  const std::optional<ModelBytes> bytes = model_bytes(cell);
  if (!bytes) return nullptr;
  Json list = Json::array();
  for (const StepResult& step : cell.steps) list.push_back(model_step(*step.model));
  return {{"read_bytes", bytes->read}, {"write_bytes", bytes->write}, {"steps", list}};
}

Json measured(const Cell& cell) {
  if (!cell.counters) return nullptr;
  const CounterFigures& whole = cell.counters->whole;
  Json out;
  put_count(out, "read_bytes", whole.read_bytes);
  put_count(out, "write_bytes", whole.write_bytes);
  put_count(out, "write_uncertainty_bytes", whole.write_uncertainty_bytes);
  const std::optional<ModelBytes> modelled = model_bytes(cell);
  const double counted = whole.read_bytes + whole.write_bytes;
  put(out, "over_model",
      modelled && modelled->total() > 0 ? std::optional(counted / modelled->total())
                                        : std::nullopt);
  // Each step starts on a cache without its operands, so they may add up to more than the whole.
  Json list = Json::array();
  for (const StepResult& step : cell.steps) {
    if (!step.measured) continue;
    Json one{{"name", step.name}};
    put_count(one, "read_bytes", step.measured->read_bytes);
    put_count(one, "write_bytes", step.measured->write_bytes);
    list.push_back(one);
  }
  out["steps"] = list;
  return out;
}

/// Why a figure is null: what the harness said, else that the cell was not run to that point.
Json reason_for(const Json& figure, const std::optional<std::string>& reason, const Cell& cell) {
  if (!figure.is_null()) return nullptr;
  return reason.value_or(fmt::format("the cell's status is {}", to_string(cell.status)));
}

Json hbm(const Cell& cell) {
  const Json by_model = model(cell);
  const Json by_counters = measured(cell);
  return {{"model", by_model},
          {"model_reason", reason_for(by_model, cell.model_reason, cell)},
          {"measured", by_counters},
          {"measured_reason", reason_for(by_counters, cell.measured_reason, cell)}};
}

Json counter_figures(const CounterFigures& figures) {
  Json out;
  put_count(out, "read_bytes", figures.read_bytes);
  put_count(out, "write_bytes", figures.write_bytes);
  put_count(out, "read_spread_bytes", figures.read_spread_bytes);
  put_count(out, "write_spread_bytes", figures.write_spread_bytes);
  put_count(out, "write_uncertainty_bytes", figures.write_uncertainty_bytes);
  put_count(out, "l2_bytes", figures.l2_bytes);
  put_count(out, "tensor_bf16_ops", figures.tensor_bf16_ops);
  put_count(out, "tensor_f16_ops", figures.tensor_f16_ops);
  put_count(out, "tensor_tf32_ops", figures.tensor_tf32_ops);
  put_count(out, "f32_ops", figures.f32_ops);
  put_count(out, "special_ops", figures.special_ops);
  put(out, "tensor_active", figures.tensor_active);
  put(out, "duration_s", figures.duration_s);
  return out;
}

Json counters(const std::optional<PlanCounters>& counters) {
  if (!counters) return nullptr;
  Json list = Json::array();
  for (const CounterFigures& step : counters->steps) list.push_back(counter_figures(step));
  return {{"repeats", counters->repeats},
          {"passes", counters->passes},
          {"whole", counter_figures(counters->whole)},
          {"steps", list}};
}

Json memory(const MemoryFigures& memory) {
  return {{"operand_bytes", memory.operand_bytes},
          {"workspace_bytes", memory.workspace_bytes},
          {"peak_bytes", memory.peak_bytes},
          {"driver_peak_bytes", or_null(memory.driver_peak_bytes)},
          {"needed_bytes", memory.needed_bytes},
          {"free_bytes", memory.free_bytes}};
}

Json speedup(const std::optional<Ratio>& ratio) {
  if (!ratio) return nullptr;
  Json out;
  put(out, "ratio", ratio->ratio);
  put(out, "low", ratio->low);
  put(out, "high", ratio->high);
  return out;
}

Json executed(const Cell& cell) {
  const std::optional<ExecutedOperations> executed = executed_operations(cell);
  if (!executed) return nullptr;
  Json out;
  put_count(out, "tensor_ops", executed->operations);
  put(out, "over_algorithmic", executed->over_algorithmic);
  put(out, "over_unmasked", executed->over_unmasked);
  return out;
}

Json derived(const Cell& cell) {
  const std::optional<double> rate = flops_per_s(cell);
  const std::optional<HbmBytes> bytes = hbm_bytes(cell);
  Json out;
  put_count(out, "flops", cell.problem.flops());
  put_count(out, "exps", cell.problem.exps());
  out["tflops"] = nullptr;
  out["hbm_bytes_per_s"] = nullptr;
  out["hbm_bytes_from"] = nullptr;
  if (rate) {
    put(out, "tflops", *rate / 1e12);
    if (bytes) {
      put(out, "hbm_bytes_per_s", bytes->bytes / cell.time->median_s);
      out["hbm_bytes_from"] = bytes->measured ? "measured" : "model";
    }
  }
  out["invalid"] = impossibilities(cell);
  out["executed"] = executed(cell);
  out["speedup_over_naive"] = speedup(cell.speedup_over_naive);
  out["bound_by"] = cell.bound ? Json(to_string(cell.bound->bound_by)) : Json(nullptr);
  out["floor_s"] = nullptr;
  out["time_over_floor"] = nullptr;
  if (cell.bound) {
    put(out, "floor_s", cell.bound->floor_s);
    put(out, "time_over_floor", cell.bound->time_over_floor);
  }
  return out;
}

}  // namespace

std::optional<HbmBytes> hbm_bytes(const Cell& cell) {
  if (cell.counters) {
    return HbmBytes{cell.counters->whole.read_bytes + cell.counters->whole.write_bytes, true};
  }
  const std::optional<ModelBytes> bytes = model_bytes(cell);
  if (!bytes) return std::nullopt;
  return HbmBytes{bytes->total(), false};
}

std::optional<double> flops_per_s(const Cell& cell) {
  const bool quotable = cell.status == Status::ok && cell.time && cell.time->median_s > 0 &&
                        impossibilities(cell).empty();
  return quotable ? std::optional(cell.problem.flops() / cell.time->median_s) : std::nullopt;
}

std::vector<std::string> impossibilities(const Cell& cell) {
  std::vector<std::string> reasons;
  for (const StepResult& step : cell.steps) {
    for (const std::string& reason : step.impossible) {
      reasons.push_back(fmt::format("{}: {}", step.name, reason));
    }
  }
  return reasons;
}

Json to_json(const Cell& cell) {
  return {{"problem", problem_json(cell.problem)},
          {"implementation", cell.implementation},
          {"kind", to_string(cell.kind)},
          {"status", to_string(cell.status)},
          {"reason", or_null(cell.reason)},
          {"exactness", exactness_json(cell.exactness)},
          {"time", time(cell.time)},
          {"steps", steps(cell)},
          {"hbm", hbm(cell)},
          {"memory", memory(cell.memory)},
          {"counters", counters(cell.counters)},
          {"choices", cell.choices},
          {"derived", derived(cell)}};
}

}  // namespace flashbench
