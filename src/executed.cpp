#include "executed.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "section.h"

namespace flashbench {

std::optional<ExecutedOperations> executed_operations(const Cell& cell) {
  if (!cell.counters) return std::nullopt;
  const CounterFigures& whole = cell.counters->whole;
  const double operations = whole.tensor_bf16_ops.value_or(0) + whole.tensor_f16_ops.value_or(0) +
                            whole.tensor_tf32_ops.value_or(0);
  if (!(operations > 0)) return std::nullopt;
  const double unmasked = 4.0 * static_cast<double>(cell.problem.head_dim) *
                          static_cast<double>(cell.problem.score_elements());
  return ExecutedOperations{operations, operations / cell.problem.flops(), operations / unmasked};
}

std::string causal_shares(const Run& run) {
  std::vector<Problem> problems;
  for (const Cell& cell : run.cells) {
    if (cell.problem.mask == Mask::causal && executed_operations(cell)) {
      problems.push_back(cell.problem);
    }
  }
  std::string text;
  for (const Section& section : split_sections(problems)) {
    const Problem& largest = *std::ranges::max_element(section.problems, {}, &Problem::flops);
    std::string shares;
    for (const Cell& cell : run.cells) {
      const auto executed = executed_operations(cell);
      if (!(cell.problem == largest) || !executed) continue;
      shares += fmt::format("{} {} {:.1f} %", shares.empty() ? "" : ",", cell.implementation,
                            100 * executed->over_unmasked);
    }
    text +=
        fmt::format("  {}, N = {}: tensor operations of the whole square that are executed:{}\n",
                    section.title, length_label(largest), shares);
  }
  return text;
}

}  // namespace flashbench
