#include "verification.h"

#include <fmt/format.h>

#include "error.h"
#include "report.h"
#include "report_parts.h"

namespace flashbench {
namespace {

std::vector<CaseOutcome> all(std::size_t count, Status status, const std::string& reason) {
  return std::vector<CaseOutcome>(count, CaseOutcome{status, reason, std::nullopt});
}

Json to_json(const VerifiedCase& verified, const Verification& verification) {
  Json outcomes = Json::array();
  for (std::size_t i = 0; i < verified.outcomes.size(); ++i) {
    const CaseOutcome& outcome = verified.outcomes[i];
    outcomes.push_back({{"implementation", verification.implementations.at(i).name},
                        {"status", to_string(outcome.status)},
                        {"reason", or_null(outcome.reason)},
                        {"exactness", exactness_json(outcome.exactness)}});
  }
  return {{"name", verified.verify_case.name},
          {"problem", problem_json(verified.verify_case.problem)},
          {"distribution", to_string(verified.verify_case.inputs.distribution)},
          {"seed", verified.verify_case.inputs.seed},
          {"outcomes", outcomes}};
}

}  // namespace

void verify(Backend& backend, const std::vector<const Implementation*>& implementations,
            const std::vector<VerifyCase>& cases, Verification& verification,
            VerifyObserver& observer, const std::atomic<bool>& stop) {
  std::string lost;  // why the device answers nothing more
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (stop) {
      verification.interrupted = true;
      return;
    }
    observer.started(cases[i], i, cases.size());
    VerifiedCase verified{cases[i], {}};
    if (!lost.empty()) {
      verified.outcomes = all(implementations.size(), Status::not_run, lost);
    } else {
      try {
        verified.outcomes = judge_case(backend, implementations, cases[i]);
      } catch (const DeviceLost& error) {
        lost = fmt::format("the device was lost in {}: {}", cases[i].name, error.what());
        verified.outcomes = all(implementations.size(), Status::failed, lost);
      } catch (const Error& error) {
        verified.outcomes = all(implementations.size(), Status::failed, error.what());
      }
    }
    verification.cases.push_back(std::move(verified));
    observer.finished(verification);
  }
}

int exit_code(const Verification& verification) {
  if (verification.interrupted) return 130;
  bool wrong = false;
  for (const VerifiedCase& verified : verification.cases) {
    for (std::size_t i = 0; i < verified.outcomes.size(); ++i) {
      const Status status = verified.outcomes[i].status;
      if (status == Status::failed || status == Status::not_run) return 3;
      wrong = wrong || (status == Status::wrong &&
                        verification.implementations.at(i).kind != Kind::approximate);
    }
  }
  return wrong ? 1 : 0;
}

std::string to_document(const Verification& verification) {
  Json implementations = Json::array();
  for (const VerifiedImplementation& implementation : verification.implementations) {
    implementations.push_back(
        {{"name", implementation.name}, {"kind", to_string(implementation.kind)}});
  }
  Json cases = Json::array();
  for (const VerifiedCase& verified : verification.cases) {
    cases.push_back(to_json(verified, verification));
  }
  const Json document{{"schema_version", kSchemaVersion},
                      {"tool", tool_json()},
                      {"command", verification.command},
                      {"started_utc", verification.started_utc},
                      {"interrupted", verification.interrupted},
                      {"seed", verification.seed},
                      {"device", device_json(verification.device)},
                      {"suite", verification.thorough ? "thorough" : "default"},
                      {"implementations", implementations},
                      {"cases", cases}};
  return lines_of(document, "cases");
}

}  // namespace flashbench
