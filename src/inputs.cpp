#include "inputs.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>

#include "error.h"
#include "input_values.h"

namespace flashbench {

namespace {

struct Entry {
  Distribution distribution;
  std::string_view name;
  bool generic;
};

// Generic: weights and values vary so much that rounding errors are as good as independent. Not
// generic: equal weights round alike, one-hot rows have one error, sums of equal values drift one
// way.
constexpr std::array kEntries{
    Entry{Distribution::normal, "normal", true},
    Entry{Distribution::uniform, "uniform", true},
    Entry{Distribution::large, "large", false},
    Entry{Distribution::equal, "equal", false},
    Entry{Distribution::one_hot, "one-hot", false},
    Entry{Distribution::decreasing, "decreasing", false},
    Entry{Distribution::increasing, "increasing", false},
    Entry{Distribution::offset, "offset", false},
    Entry{Distribution::sparse, "sparse", false},
    Entry{Distribution::outlier, "outlier", true},
    Entry{Distribution::denormal, "denormal", false},
    Entry{Distribution::huge, "huge", false},
    Entry{Distribution::ones, "ones", false},
    Entry{Distribution::position, "position", false},
    Entry{Distribution::non_finite_hidden, "non-finite-hidden", false},
    Entry{Distribution::non_finite_visible, "non-finite-visible", false},
};

constexpr auto kDistributions = [] {
  std::array<Distribution, kEntries.size()> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = kEntries[i].distribution;
  return all;
}();

const Entry& entry(Distribution distribution) {
  return kEntries[static_cast<std::size_t>(distribution)];
}

}  // namespace

std::string_view to_string(Distribution distribution) {
  return entry(distribution).name;
}

bool is_generic(Distribution distribution) {
  return entry(distribution).generic;
}

std::span<const Distribution> distributions() {
  return kDistributions;
}

Distribution parse_distribution(std::string_view name) {
  std::string accepted;
  for (const Entry& candidate : kEntries) {
    if (candidate.name == name) return candidate.distribution;
    if (!accepted.empty()) accepted += ", ";
    accepted += candidate.name;
  }
  throw UsageError(fmt::format("unknown distribution '{}': one of {}", name, accepted));
}

InputShape input_shape(const Problem& problem, const InputSpec& spec) {
  InputShape shape;
  shape.n_q = problem.n_q;
  shape.n_kv = problem.n_kv;
  shape.heads = problem.heads;
  shape.kv_heads = problem.kv_heads;
  shape.head_dim = problem.head_dim;
  shape.dtype = problem.dtype;
  shape.causal = problem.mask == Mask::causal;
  shape.distribution = spec.distribution;
  shape.seed = spec.seed;
  shape.root_dim = std::sqrt(static_cast<float>(problem.head_dim));
  return shape;
}

}  // namespace flashbench
