#include "self_test.h"

#include <algorithm>

#include "error.h"

namespace flashbench {

namespace {

SelfTestRow make_row(const Implementation& implementation) {
  SelfTestRow row;
  row.name = implementation.name();
  row.description = implementation.description();
  return row;
}

void record(const CaseOutcome& outcome, const std::string& name, SelfTestRow& row) {
  if (outcome.status == Status::wrong && !row.killed()) {
    row.first_reason = name + ": " + outcome.reason.value_or("");
  }
  row.outcomes.push_back(outcome.status);
  if (!outcome.exactness) return;
  const Exactness& exactness = *outcome.exactness;
  row.figures.bound_ratios.push_back(exactness.bound_ratio);
  if (exactness.row_noise && exactness.row_noise_limit) {
    row.figures.noise_ratios.push_back(*exactness.row_noise / *exactness.row_noise_limit);
  }
}

}  // namespace

std::size_t SelfTestRow::wrong_cases() const {
  return static_cast<std::size_t>(std::ranges::count(outcomes, Status::wrong));
}

std::vector<std::string> SelfTest::survivors() const {
  std::vector<std::string> names;
  for (const SelfTestRow& row : mutants) {
    if (!row.killed()) names.push_back(row.name);
  }
  return names;
}

std::vector<std::string> SelfTest::false_alarms() const {
  std::vector<std::string> names;
  for (const SelfTestRow& row : controls) {
    if (row.killed()) names.push_back(row.name);
  }
  return names;
}

SelfTest self_test(Backend& backend, const Catalogue& mutants,
                   std::span<const Implementation* const> controls,
                   std::span<const VerifyCase> cases, SelfTestExtent extent,
                   const std::function<void(std::size_t)>& progress) {
  SelfTest result;
  for (const auto& mutant : mutants) result.mutants.push_back(make_row(*mutant));
  for (const Implementation* control : controls) result.controls.push_back(make_row(*control));
  for (const VerifyCase& one : cases) {
    CaseRun run(backend, one, verify_budget(backend.device->info().kind));
    for (std::size_t i = 0; i < mutants.size(); ++i) {
      if (extent == SelfTestExtent::until_killed && result.mutants[i].killed()) {
        result.mutants[i].outcomes.push_back(Status::not_run);
        continue;
      }
      record(run.judge(*mutants[i], false), one.name, result.mutants[i]);
    }
    for (std::size_t i = 0; i < controls.size(); ++i) {
      record(run.judge(*controls[i], false), one.name, result.controls[i]);
    }
    result.cases.push_back(one.name);
    if (progress) progress(result.cases.size());
  }
  for (std::vector<SelfTestRow>* rows : {&result.mutants, &result.controls}) {
    for (SelfTestRow& row : *rows) {
      std::ranges::sort(row.figures.bound_ratios);
      std::ranges::sort(row.figures.noise_ratios);
    }
  }
  return result;
}

}  // namespace flashbench
