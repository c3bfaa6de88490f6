#pragma once

#include <span>
#include <string>
#include <vector>

#include "problem.h"

namespace flashbench {

/// Problems that differ in sequence length alone, and in batch where that follows from the length
/// (--tokens): one block of the table, one pair of curves.
struct Section {
  std::string title;  ///< what they share: "B1 H16/4 d128 bf16 causal"
  std::vector<Problem> problems;
  bool batch_varies = false;  ///< batch follows from the length, and is not in the title
};

/// In order of first appearance; problems keep their order, and each stands once.
std::vector<Section> split_sections(std::span<const Problem> problems);

/// "4k", or "1x4k" where queries and keys differ in number.
std::string length_label(const Problem& problem);

}  // namespace flashbench
