#include "self_test_report.h"

#include <algorithm>

#include "report.h"
#include "report_parts.h"

namespace flashbench {
namespace {

/// Least, median and largest; null where there is nothing.
Json spread(const std::vector<double>& ascending) {
  if (ascending.empty()) return nullptr;
  Json object;
  put(object, "least", ascending.front());
  put(object, "median", ascending[ascending.size() / 2]);
  put(object, "largest", ascending.back());
  return object;
}

Json to_json(const SelfTestRow& row) {
  Json outcomes = Json::array();
  for (const Status status : row.outcomes) outcomes.push_back(to_string(status));
  return {{"name", row.name},
          {"description", row.description},
          {"called_wrong", row.wrong_cases()},
          {"first_reason", or_null(row.first_reason)},
          {"bound_ratio", spread(row.figures.bound_ratios)},
          {"row_noise_over_limit", spread(row.figures.noise_ratios)},
          {"outcomes", outcomes}};
}

Json to_json(const std::vector<SelfTestRow>& rows) {
  Json array = Json::array();
  for (const SelfTestRow& row : rows) array.push_back(to_json(row));
  return array;
}

}  // namespace

std::string to_document(const SelfTest& result, const SelfTestSettings& settings) {
  const bool all = settings.extent == SelfTestExtent::all_cases;
  const Json document{{"schema_version", kSchemaVersion},
                      {"tool", tool_json()},
                      {"command", settings.command},
                      {"started_utc", settings.started_utc},
                      {"seed", settings.seed},
                      {"device", device_json(settings.device)},
                      {"extent", all ? "all cases" : "until caught"},
                      {"passed", result.passed()},
                      {"cases", result.cases},
                      {"right", to_json(result.controls)},
                      {"mutants", to_json(result.mutants)}};
  return lines_of(document, "mutants");
}

}  // namespace flashbench
