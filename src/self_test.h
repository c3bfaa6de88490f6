#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "verify.h"

namespace flashbench {

/// Figures of one implementation over the cases that it ran on.
struct CaseFigures {
  std::vector<double>
      bound_ratios;  ///< one a case, ascending; infinite where an element is not finite
  std::vector<double> noise_ratios;  ///< row_noise over its limit on generic data, ascending
};

/// One implementation over all cases.
struct SelfTestRow {
  std::string name;
  std::string description;
  /// What each case made of it: ok, wrong, unsupported, ...; in the order of SelfTest::cases.
  std::vector<Status> outcomes;
  /// Why the first case that called it wrong did so.
  std::optional<std::string> first_reason;
  CaseFigures figures;

  std::size_t wrong_cases() const;
  bool killed() const { return wrong_cases() > 0; }
};

/// Does the verdict tell wrong from right? Mutants x cases, and the right implementations beside
/// them.
struct SelfTest {
  std::vector<std::string> cases;
  std::vector<SelfTestRow> mutants;
  std::vector<SelfTestRow> controls;  ///< implementations that are exact and must pass

  /// Names of mutants that no case called wrong, and of controls that one did.
  std::vector<std::string> survivors() const;
  std::vector<std::string> false_alarms() const;
  bool passed() const { return survivors().empty() && false_alarms().empty(); }
};

/// all_cases: the whole matrix. until_killed: a mutant is spared the cases after its first wrong
/// one (not_run), which takes a tenth of the time.
enum class SelfTestExtent : std::uint8_t { all_cases, until_killed };

/// Runs every mutant and control on every case, one launch each. `progress` is told the number of
/// cases done.
SelfTest self_test(Backend& backend, const Catalogue& mutants,
                   std::span<const Implementation* const> controls,
                   std::span<const VerifyCase> cases, SelfTestExtent extent,
                   const std::function<void(std::size_t)>& progress);

}  // namespace flashbench
