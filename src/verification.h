#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backend.h"
#include "verify.h"

namespace flashbench {

struct VerifiedImplementation {
  std::string name;
  Kind kind = Kind::naive;
};

/// A case with what became of each implementation on it, in the order of
/// Verification::implementations.
struct VerifiedCase {
  VerifyCase verify_case;
  std::vector<CaseOutcome> outcomes;
};

/// What `flashbench verify` found: its JSON document holds it all.
struct Verification {
  std::vector<std::string> command;
  std::string started_utc;  ///< ISO 8601
  bool interrupted = false;
  bool thorough = false;
  std::uint64_t seed = 0;
  DeviceInfo device;
  std::vector<VerifiedImplementation> implementations;
  std::vector<VerifiedCase> cases;
};

/// Told of a verification as it goes, from the thread that called verify().
class VerifyObserver {
 public:
  virtual ~VerifyObserver() = default;
  virtual void started(const VerifyCase& /*verify_case*/, std::size_t /*index*/,
                       std::size_t /*total*/) {}
  /// verification.cases.back() has just been finished.
  virtual void finished(const Verification& /*verification*/) {}
};

/// Judges each implementation on each case. One that fails costs nobody else anything; after a lost
/// device the rest is not_run. Stops after the case in hand once `stop` is set.
void verify(Backend& backend, const std::vector<const Implementation*>& implementations,
            const std::vector<VerifyCase>& cases, Verification& verification,
            VerifyObserver& observer, const std::atomic<bool>& stop);

/// 0: nothing but exact, unsupported or out of memory; 1: an implementation that is not approximate
/// was not exact; 3: a failed case; 130: interrupted.
int exit_code(const Verification& verification);

/// The document of a verification, as results/schema/verify.schema.json describes it.
std::string to_document(const Verification& verification);

}  // namespace flashbench
