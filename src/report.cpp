#include "report.h"

#include <fmt/format.h>

#include <string_view>

#include "json_values.h"
#include "version.h"

namespace flashbench {
namespace {

Json tool() {
  return {{"name", "flashbench"},
          {"version", tool_version()},
          {"commit", tool_commit()},
          {"build_type", tool_build_type()}};
}

Json device(const DeviceInfo& info) {
  return {{"kind", to_string(info.kind)},
          {"name", info.name},
          {"uuid", or_null_if_empty(info.uuid)},
          {"memory_bytes", info.memory_bytes},
          {"l2_bytes", or_null_if_empty(info.l2_bytes)},
          {"sm_count", info.sm_count},
          {"compute_capability", or_null_if_empty(info.compute_capability)},
          {"shared_memory_per_block_bytes", or_null_if_empty(info.shared_memory_per_block)},
          {"max_clock_hz", or_null_if_empty(info.max_clock_hz)},
          {"memory_peak_bytes_per_s", or_null_if_empty(info.memory_peak_bytes_per_s)},
          {"ecc", info.kind == DeviceKind::cuda ? Json(info.ecc) : Json(nullptr)},
          {"driver", or_null_if_empty(info.driver)},
          {"runtime", or_null_if_empty(info.runtime)}};
}

Json settings(const Settings& settings) {
  return {{"load", to_string(settings.load)},
          {"cache", to_string(settings.cache)},
          {"distribution", to_string(settings.distribution)},
          {"max_samples", or_null_if_empty(settings.samples)},
          {"time_limit_s", settings.time_limit_s},
          {"precision", settings.precision},
          {"counters", to_string(settings.counters)},
          {"references", settings.references},
          {"noise_floor", settings.noise_floor}};
}

Json noise_floor(const std::optional<NoiseFloor>& floor) {
  if (!floor) return nullptr;
  Json out;
  put(out, "ratio", floor->ratio.ratio);
  put(out, "low", floor->ratio.low);
  put(out, "high", floor->ratio.high);
  out["stable"] = floor->stable;
  return out;
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Json to_json(const References& references) {
  Json rates = Json::object();
  for (const auto& [reference, rate] : references.rates) {
    Json one{{"unit", unit(reference)}};
    put(one, "rate", rate.rate);
    put(one, "low", rate.low);
    put(one, "high", rate.high);
    put(one, "sm_clock_hz", rate.sm_clock_hz);
    one["history"] = rate.history;
    rates[std::string(to_string(reference))] = one;
  }
  Json out{{"load", to_string(references.load)}, {"rates", rates}};
  put(out, "drift", references.drift());
  return out;
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
          {"references", run.references ? to_json(*run.references) : Json(nullptr)},
          {"noise_floor", noise_floor(run.noise_floor)},
          {"warnings", run.warnings},
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
