#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "style.h"
#include "verification.h"

namespace flashbench {

/// The matrix of verdicts, cases by implementations, row by row as cases finish. An exact output is
/// shown by its bound_ratio: the largest error over its bound, at most 1.
class VerdictTable {
 public:
  VerdictTable(const std::vector<VerifiedImplementation>& implementations,
               const std::vector<VerifyCase>& cases, Style style);

  std::string heading() const;
  std::string row(const VerifiedCase& verified) const;

 private:
  std::vector<VerifiedImplementation> implementations_;
  Style style_;
  std::size_t name_width_ = 0;
};

/// The worst element of an output: "batch 0, head 1, row 17, column 5: got 0.25, want 0.26, error
/// 33 times its bound".
std::string describe_worst(const Exactness& exactness);

/// What went wrong, a line or two for each implementation and case, at most `limit` of them, then
/// how many more there are. Approximate implementations being not exact is no failure.
std::string failures(const Verification& verification, std::size_t limit);

/// For each implementation the largest figures over its exact cases, and one last line on the
/// whole.
std::string summary(const Verification& verification);

}  // namespace flashbench
