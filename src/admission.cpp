#include "admission.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "error.h"

namespace flashbench {

namespace {

// Kept free for the oracle's scratch, the flush buffer and the driver's own needs.
constexpr std::int64_t kReserveBytes = std::int64_t{512} << 20;

// Kinds that --impl may name. A library or an approximation is asked for by its own name.
constexpr std::array kNamedKinds{Kind::naive, Kind::fused};

std::optional<Kind> named_kind(std::string_view name) {
  const auto* found =
      std::ranges::find(kNamedKinds, name, [](Kind kind) { return to_string(kind); });
  return found == kNamedKinds.end() ? std::nullopt : std::optional(*found);
}

const Implementation* find_by_name(const Catalogue& catalogue, std::string_view name) {
  const auto found =
      std::ranges::find(catalogue, name, [](const auto& item) { return item->name(); });
  return found == catalogue.end() ? nullptr : found->get();
}

/// The first of `kind` that supports the problem, else the first of that kind, else null.
const Implementation* best_of_kind(const Catalogue& catalogue, Kind kind, const Problem& problem,
                                   const DeviceInfo& device) {
  const Implementation* first = nullptr;
  for (const auto& item : catalogue) {
    if (item->kind() != kind) continue;
    if (!item->unsupported(problem, device)) return item.get();
    if (first == nullptr) first = item.get();
  }
  return first;
}

Candidate describe(const Problem& problem, const Implementation& implementation,
                   const DeviceInfo& device) {
  Candidate candidate{&implementation, {}};
  Cell& cell = candidate.cell;
  cell.problem = problem;
  cell.implementation = implementation.name();
  cell.kind = implementation.kind();
  cell.memory.operand_bytes = problem.operand_bytes();
  if (auto reason = implementation.unsupported(problem, device)) {
    cell.status = Status::unsupported;
    cell.reason = std::move(reason);
    return candidate;
  }
  cell.memory.workspace_bytes = implementation.workspace_bytes(problem, device);
  cell.memory.peak_bytes = checked_add(cell.memory.operand_bytes, cell.memory.workspace_bytes);
  return candidate;
}

}  // namespace

std::int64_t MemoryNeed::total() const {
  return checked_add(checked_add(operands, outputs), checked_add(workspace, kReserveBytes));
}

MemoryNeed memory_need(const Problem& problem,
                       const std::vector<const Implementation*>& implementations,
                       const DeviceInfo& device) {
  const std::int64_t output_bytes = checked_multiply(problem.q_elements(), size_of(problem.dtype));
  MemoryNeed need;
  need.operands = problem.operand_bytes() - output_bytes;
  need.outputs =
      checked_multiply(output_bytes, static_cast<std::int64_t>(implementations.size()) + 1);
  for (const Implementation* implementation : implementations) {
    need.workspace = std::max(need.workspace, implementation->workspace_bytes(problem, device));
  }
  return need;
}

void check_implementation_names(const std::vector<std::string>& names, const Catalogue& catalogue) {
  for (const std::string& name : names) {
    if (name == "all" || named_kind(name) || find_by_name(catalogue, name) != nullptr) continue;
    std::vector<std::string_view> accepted{"all", "naive", "fused"};
    for (const auto& item : catalogue) {
      if (std::ranges::find(accepted, item->name()) == accepted.end())
        accepted.push_back(item->name());
    }
    throw UsageError(
        fmt::format("--impl: unknown implementation '{}' (accepted on this device: {})", name,
                    fmt::join(accepted, ", ")));
  }
}

std::vector<const Implementation*> resolve_implementations(const std::vector<std::string>& names,
                                                           const Catalogue& catalogue,
                                                           const Problem& problem,
                                                           const DeviceInfo& device) {
  std::vector<const Implementation*> resolved;
  const auto add = [&](const Implementation* implementation) {
    if (implementation != nullptr &&
        std::ranges::find(resolved, implementation) == resolved.end()) {
      resolved.push_back(implementation);
    }
  };
  for (const std::string& name : names) {
    if (name == "all") {
      for (const auto& item : catalogue) add(item.get());
    } else if (const auto kind = named_kind(name)) {
      add(best_of_kind(catalogue, *kind, problem, device));
    } else {
      add(find_by_name(catalogue, name));
    }
  }
  return resolved;
}

std::vector<Candidate> admit(const Problem& problem, const std::vector<std::string>& names,
                             const Backend& backend) {
  const DeviceInfo& device = backend.device->info();
  const std::int64_t free = backend.device->free_bytes();
  std::vector<Candidate> candidates;
  for (const Implementation* item :
       resolve_implementations(names, backend.catalogue, problem, device)) {
    candidates.push_back(describe(problem, *item, device));
  }

  // The hungriest last, so that it is the one left out where all together do not fit.
  std::vector<std::size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, {}, [&](std::size_t i) { return candidates[i].cell.memory.workspace_bytes; });
  std::vector<const Implementation*> admitted;
  for (const std::size_t i : order) {
    Cell& cell = candidates[i].cell;
    if (cell.status != Status::not_run) continue;
    admitted.push_back(candidates[i].implementation);
    cell.memory.needed_bytes = memory_need(problem, admitted, device).total();
    cell.memory.free_bytes = free;
    if (cell.memory.needed_bytes > free) {
      cell.status = Status::out_of_memory;
      cell.reason = fmt::format("needs {} bytes, {} are free", cell.memory.needed_bytes, free);
      admitted.pop_back();
    }
  }
  return candidates;
}

}  // namespace flashbench
