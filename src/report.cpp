#include "report.h"

#include "report_parts.h"

namespace flashbench {
namespace {

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
          {"tool", tool_json()},
          {"command", run.command},
          {"started_utc", run.started_utc},
          {"interrupted", run.interrupted},
          {"seed", run.settings.seed},
          {"device", device_json(run.device)},
          {"settings", settings(run.settings)},
          {"references", run.references ? to_json(*run.references) : Json(nullptr)},
          {"noise_floor", noise_floor(run.noise_floor)},
          {"warnings", run.warnings},
          {"cells", std::move(cells)}};
}

std::string to_document(const Run& run) {
  return lines_of(to_json(run), "cells");
}

}  // namespace flashbench
