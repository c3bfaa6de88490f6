#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "arena.h"
#include "backend.h"
#include "cell.h"
#include "exactness.h"
#include "verifier.h"
#include "workbench.h"

namespace flashbench {

/// A problem with the inputs that implementations are judged on.
struct VerifyCase {
  std::string name;  ///< unique in a suite: "position bf16 causal N1000 d64"
  Problem problem;
  InputSpec inputs;
};

/// What became of one implementation on one case.
struct CaseOutcome {
  Status status = Status::not_run;     ///< ok, wrong, unsupported, out_of_memory or failed
  std::optional<std::string> reason;   ///< where the status is not ok
  std::optional<Exactness> exactness;  ///< where it ran
};

/// One case made ready: memory, inputs and the truth, shared by the implementations judged on it.
class CaseRun {
 public:
  /// `budget`: operations that the oracle may spend (select_rows). Throws OutOfMemory where the
  /// case itself does not fit.
  CaseRun(Backend& backend, const VerifyCase& verify_case, double budget);

  /// Runs `implementation` twice over poison and judges output and log-sum-exp: written everywhere,
  /// finite where the truth is, within the bound, and the same bits twice. What goes wrong becomes
  /// the outcome's status; DeviceLost is thrown. Without `twice` it runs once.
  CaseOutcome judge(const Implementation& implementation, bool twice = true);

  const OracleRows& truth() const { return verifier_.truth(); }
  const Workbench& bench() const { return bench_; }

 private:
  CaseOutcome run(const Implementation& implementation, bool twice);

  Backend& backend_;
  VerifyCase case_;
  Arena arena_;
  Workbench bench_;
  Verifier verifier_;
};

/// `implementation` on one case. What does not fit is out_of_memory.
CaseOutcome judge_case(Backend& backend, const Implementation& implementation,
                       const VerifyCase& verify_case);

/// Each of `implementations` on one case, in their order.
std::vector<CaseOutcome> judge_case(Backend& backend,
                                    std::span<const Implementation* const> implementations,
                                    const VerifyCase& verify_case);

}  // namespace flashbench
