#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend.h"
#include "cell.h"

namespace flashbench {

/// A cell about to run, or already decided: `cell.status` is not_run exactly when it is to run.
struct Candidate {
  const Implementation* implementation = nullptr;
  Cell cell;
};

/// Device memory that running a set of cells together takes, beyond what is in use already.
struct MemoryNeed {
  std::int64_t operands = 0;   ///< Q, K and V, shared
  std::int64_t outputs = 0;    ///< one O for each cell, and one to compare with
  std::int64_t workspace = 0;  ///< the largest of the cells', shared

  std::int64_t total() const;
};

/// What running `implementations` on `problem` takes.
MemoryNeed memory_need(const Problem& problem,
                       const std::vector<const Implementation*>& implementations,
                       const DeviceInfo& device);

/// Throws UsageError naming the unknown implementation and what is accepted.
void check_implementation_names(const std::vector<std::string>& names, const Catalogue& catalogue);

/// The implementations that `names` mean for `problem`, each once, in the order asked for: "all" is
/// the whole catalogue, a kind ("naive", "fused") its first member that supports the problem, else
/// its first member.
std::vector<const Implementation*> resolve_implementations(const std::vector<std::string>& names,
                                                           const Catalogue& catalogue,
                                                           const Problem& problem,
                                                           const DeviceInfo& device);

/// One candidate for each implementation: decided `unsupported` with its reason; decided
/// `out_of_memory` with both numbers where it would not fit into what the device has free, alone or
/// beside the smaller ones.
std::vector<Candidate> admit(const Problem& problem, const std::vector<std::string>& names,
                             const Backend& backend);

}  // namespace flashbench
