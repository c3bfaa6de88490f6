#include "report.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

#include "version.h"

namespace flashbench {
namespace {

using Json = nlohmann::ordered_json;

/// A count kept in a double: an integer in the document wherever it is one.
Json count(double value) {
  constexpr double kBeyondInt64 = 9223372036854775808.0;
  if (value == std::floor(value) && std::abs(value) < kBeyondInt64) {
    return static_cast<std::int64_t>(value);
  }
  return value;
}

void put(Json& object, const std::string& name, double value) {
  if (std::isfinite(value)) {
    object[name] = value;
    return;
  }
  object[name] = nullptr;
  object[name + "_reason"] =
      std::isnan(value) ? "NaN" : (value > 0 ? "infinite" : "minus infinite");
}

void put(Json& object, const std::string& name, const std::optional<double>& value) {
  if (value) {
    put(object, name, *value);
  } else {
    object[name] = nullptr;
  }
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

/// DeviceInfo says 0 or empty for what is not known.
template <typename T>
Json known(const T& value) {
  return value == T{} ? Json(nullptr) : Json(value);
}

Json tool() {
  return {{"name", "flashbench"},
          {"version", tool_version()},
          {"commit", tool_commit()},
          {"build_type", tool_build_type()}};
}

Json device(const DeviceInfo& info) {
  return {{"kind", to_string(info.kind)},
          {"name", info.name},
          {"uuid", known(info.uuid)},
          {"memory_bytes", info.memory_bytes},
          {"l2_bytes", known(info.l2_bytes)},
          {"sm_count", info.sm_count},
          {"compute_capability", known(info.compute_capability)},
          {"shared_memory_per_block_bytes", known(info.shared_memory_per_block)},
          {"max_clock_hz", known(info.max_clock_hz)},
          {"memory_peak_bytes_per_s", known(info.memory_peak_bytes_per_s)},
          {"ecc", info.kind == DeviceKind::cuda ? Json(info.ecc) : Json(nullptr)},
          {"driver", known(info.driver)},
          {"runtime", known(info.runtime)}};
}

Json settings(const Settings& settings) {
  return {{"load", to_string(settings.load)},
          {"cache", to_string(settings.cache)},
          {"distribution", to_string(settings.distribution)},
          {"max_samples", known(settings.samples)},
          {"time_limit_s", known(settings.time_limit_s)},
          {"precision", settings.precision}};
}

Json problem(const Problem& problem) {
  return {{"batch", problem.batch},
          {"heads", problem.heads},
          {"kv_heads", problem.kv_heads},
          {"n_q", problem.n_q},
          {"n_kv", problem.n_kv},
          {"head_dim", problem.head_dim},
          {"dtype", to_string(problem.dtype)},
          {"mask", to_string(problem.mask)},
          {"scale", problem.scale}};
}

Json worst(const WorstElement& worst) {
  Json out{{"batch", worst.row.batch},
           {"head", worst.row.head},
           {"row", worst.row.row},
           {"column", worst.column}};
  put(out, "got", worst.got);
  put(out, "want", worst.want);
  put(out, "bound", worst.bound);
  return out;
}

Json exactness(const std::optional<Exactness>& exactness) {
  if (!exactness) return nullptr;
  Json out{{"verdict", to_string(exactness->verdict)}, {"reason", or_null(exactness->reason)}};
  put(out, "bound_ratio", exactness->bound_ratio);
  put(out, "row_noise", exactness->row_noise);
  put(out, "row_noise_limit", exactness->row_noise_limit);
  put(out, "max_abs", exactness->max_abs);
  put(out, "rel_frobenius", exactness->rel_frobenius);
  put(out, "max_ulp", exactness->max_ulp);
  out["worst"] = exactness->rows_checked > 0 ? worst(exactness->worst) : Json(nullptr);
  out["rows_checked"] = exactness->rows_checked;
  out["rows_total"] = exactness->rows_total;
  out["deterministic"] = or_null(exactness->deterministic);
  out["compared_with"] = or_null(exactness->compared_with);
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
  return out;
}

Json steps(const Cell& cell) {
  Json out = Json::array();
  for (const StepResult& step : cell.steps) {
    out.push_back({{"name", step.name}, {"median_s", or_null(step.median_s)}});
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
  return {{"name", step.name},
          {"read_bytes", step.read_bytes},
          {"write_bytes", step.write_bytes},
          {"unit", name_of(step.unit)},
          {"matrix_flops", count(step.matrix_flops)},
          {"exps", count(step.exps)}};
}

/// The totals of a cell's steps, or null where a step has none.
Json model(const Cell& cell) {
  std::int64_t read = 0;
  std::int64_t write = 0;
  Json list = Json::array();
  for (const StepResult& step : cell.steps) {
    if (!step.model) return nullptr;
    read += step.model->read_bytes;
    write += step.model->write_bytes;
    list.push_back(model_step(*step.model));
  }
  if (list.empty()) return nullptr;
  return {{"read_bytes", read}, {"write_bytes", write}, {"steps", list}};
}

Json measured(const Cell& cell) {
  double read = 0;
  double write = 0;
  Json list = Json::array();
  for (const StepResult& step : cell.steps) {
    if (!step.measured) return nullptr;
    read += step.measured->read_bytes;
    write += step.measured->write_bytes;
    list.push_back({{"name", step.name},
                    {"read_bytes", count(step.measured->read_bytes)},
                    {"write_bytes", count(step.measured->write_bytes)}});
  }
  if (list.empty()) return nullptr;
  return {{"read_bytes", count(read)}, {"write_bytes", count(write)}, {"steps", list}};
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

Json memory(const MemoryFigures& memory) {
  return {{"operand_bytes", memory.operand_bytes},
          {"workspace_bytes", memory.workspace_bytes},
          {"peak_bytes", memory.peak_bytes},
          {"driver_peak_bytes", or_null(memory.driver_peak_bytes)},
          {"needed_bytes", memory.needed_bytes},
          {"free_bytes", memory.free_bytes}};
}

Json derived(const Cell& cell) {
  Json out{{"flops", count(cell.problem.flops())}, {"exps", count(cell.problem.exps())}};
  // No rate for a result that is not right.
  const bool quotable = cell.status == Status::ok && cell.time && cell.time->median_s > 0;
  const std::optional<HbmBytes> bytes = hbm_bytes(cell);
  out["tflops"] = nullptr;
  out["hbm_bytes_per_s"] = nullptr;
  out["hbm_bytes_from"] = nullptr;
  if (quotable) {
    put(out, "tflops", cell.problem.flops() / cell.time->median_s / 1e12);
    if (bytes) {
      put(out, "hbm_bytes_per_s", bytes->bytes / cell.time->median_s);
      out["hbm_bytes_from"] = bytes->measured ? "measured" : "model";
    }
  }
  out["speedup_over_naive"] = nullptr;
  if (const auto& ratio = cell.speedup_over_naive) {
    Json speedup;
    put(speedup, "ratio", ratio->ratio);
    put(speedup, "low", ratio->low);
    put(speedup, "high", ratio->high);
    out["speedup_over_naive"] = speedup;
  }
  out["bound_by"] = nullptr;
  out["floor_s"] = nullptr;
  return out;
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::optional<HbmBytes> hbm_bytes(const Cell& cell) {
  if (cell.steps.empty()) return std::nullopt;
  HbmBytes by_counters{0, true};
  HbmBytes by_model{0, false};
  bool counted = true;
  bool modelled = true;
  for (const StepResult& step : cell.steps) {
    counted = counted && step.measured.has_value();
    modelled = modelled && step.model.has_value();
    if (counted) by_counters.bytes += step.measured->read_bytes + step.measured->write_bytes;
    if (modelled) {
      by_model.bytes += static_cast<double>(step.model->read_bytes) +
                        static_cast<double>(step.model->write_bytes);
    }
  }
  if (counted) return by_counters;
  if (modelled) return by_model;
  return std::nullopt;
}

Json to_json(const Cell& cell) {
  return {{"problem", problem(cell.problem)},
          {"implementation", cell.implementation},
          {"kind", to_string(cell.kind)},
          {"status", to_string(cell.status)},
          {"reason", or_null(cell.reason)},
          {"exactness", exactness(cell.exactness)},
          {"time", time(cell.time)},
          {"steps", steps(cell)},
          {"hbm", hbm(cell)},
          {"memory", memory(cell.memory)},
          {"counters", nullptr},
          {"choices", cell.choices},
          {"derived", derived(cell)}};
}

Json to_json(const Run& run) {
  Json cells = Json::array();
  for (const Cell& cell : run.cells) cells.push_back(to_json(cell));
  return {{"schema_version", kSchemaVersion},
          {"tool", tool()},
          {"command", run.command},
          {"started_utc", run.started_utc},
          {"interrupted", run.interrupted},
          {"seed", run.settings.seed},
          {"device", device(run.device)},
          {"settings", settings(run.settings)},
          {"references", nullptr},
          {"cells", std::move(cells)}};
}

std::string to_document(const Run& run) {
  std::string text = "{\n";
  std::string_view separator;
  const Json document = to_json(run);
  for (const auto& [name, value] : document.items()) {
    text += fmt::format("{}{}: ", separator, dump(name));
    separator = ",\n";
    if (name != "cells" || value.empty()) {
      text += dump(value);
      continue;
    }
    std::string_view between = "[\n";
    for (const Json& cell : value) {
      text += between;
      text += dump(cell);
      between = ",\n";
    }
    text += "\n]";
  }
  return text + "\n}\n";
}

}  // namespace flashbench
