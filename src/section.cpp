#include "section.h"

#include <fmt/format.h>

#include <algorithm>

#include "units.h"

namespace flashbench {
namespace {

Problem without_length(Problem problem) {
  problem.n_q = 1;
  problem.n_kv = 1;
  return problem;
}

Problem without_batch(Problem problem) {
  problem.batch = 1;
  return problem;
}

std::string title_of(const Section& section) {
  const Problem& first = section.problems.front();
  const std::string batch = section.batch_varies ? "" : fmt::format("B{} ", first.batch);
  const std::string heads = first.kv_heads == first.heads
                                ? fmt::format("H{}", first.heads)
                                : fmt::format("H{}/{}", first.heads, first.kv_heads);
  return fmt::format("{}{} d{} {}{}", batch, heads, first.head_dim, to_string(first.dtype),
                     first.mask == Mask::causal ? " causal" : "");
}

/// Some length of these problems, alike but for length and batch, has more than one batch.
bool batch_is_an_axis(const std::vector<Problem>& problems) {
  for (const Problem& a : problems) {
    for (const Problem& b : problems) {
      if (a.batch != b.batch && a.n_q == b.n_q && a.n_kv == b.n_kv) return true;
    }
  }
  return false;
}

template <typename Key>
std::vector<std::vector<Problem>> group(std::span<const Problem> problems, const Key& key) {
  std::vector<std::vector<Problem>> groups;
  for (const Problem& problem : problems) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& members) {
      return key(members.front()) == key(problem);
    });
    if (same == groups.end()) {
      groups.push_back({problem});
    } else if (std::find(same->begin(), same->end(), problem) == same->end()) {
      same->push_back(problem);
    }
  }
  return groups;
}

}  // namespace

std::vector<Section> split_sections(std::span<const Problem> problems) {
  std::vector<Section> sections;
  const auto add = [&](std::vector<Problem> members) {
    Section section;
    section.problems = std::move(members);
    const std::int64_t batch = section.problems.front().batch;
    section.batch_varies = std::any_of(section.problems.begin(), section.problems.end(),
                                       [&](const Problem& p) { return p.batch != batch; });
    section.title = title_of(section);
    sections.push_back(std::move(section));
  };
  for (auto& members :
       group(problems, [](const Problem& p) { return without_batch(without_length(p)); })) {
    if (batch_is_an_axis(members)) {
      for (auto& part : group(members, without_length)) add(std::move(part));
    } else {
      add(std::move(members));
    }
  }
  return sections;
}

std::string length_label(const Problem& problem) {
  if (problem.n_q == problem.n_kv) return format_length(problem.n_q);
  return fmt::format("{}x{}", format_length(problem.n_q), format_length(problem.n_kv));
}

}  // namespace flashbench
