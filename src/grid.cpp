#include "grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "error.h"

namespace flashbench {
namespace {

using Axis = std::vector<std::int64_t>;

void exclude(std::string_view name, const Axis& axis, std::string_view other_name,
             const Axis& other) {
  if (axis.empty() || other.empty()) return;
  throw UsageError(
      fmt::format("{} and {} exclude one another: give one of them", name, other_name));
}

void require(std::string_view name, bool given) {
  if (!given) throw UsageError(fmt::format("no {} given", name));
}

void check_axes(const GridSpec& spec) {
  exclude("--n", spec.n, "--n-q", spec.n_q);
  exclude("--n", spec.n, "--n-kv", spec.n_kv);
  exclude("--batch", spec.batch, "--tokens", spec.tokens);
  exclude("--heads", spec.heads, "--hidden", spec.hidden);
  if (spec.n_q.empty() != spec.n_kv.empty()) {
    throw UsageError(spec.n_q.empty() ? "--n-kv needs --n-q" : "--n-q needs --n-kv");
  }
  require("--n", !spec.n.empty() || !spec.n_q.empty());
  if (!spec.tokens.empty() && spec.n.empty()) {
    throw UsageError("--tokens divides by --n: give --n, or --batch with --n-q and --n-kv");
  }
  require("--heads", !spec.heads.empty() || !spec.hidden.empty());
  require("--head-dim", !spec.head_dim.empty());
  require("--dtype", !spec.dtype.empty());
  require("--mask", !spec.mask.empty());
}

std::vector<std::pair<std::int64_t, std::int64_t>> lengths(const GridSpec& spec) {
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for (const std::int64_t n : spec.n) pairs.emplace_back(n, n);
  for (const std::int64_t n_q : spec.n_q) {
    for (const std::int64_t n_kv : spec.n_kv) pairs.emplace_back(n_q, n_kv);
  }
  return pairs;
}

Axis heads_of(const GridSpec& spec, std::int64_t head_dim) {
  if (spec.hidden.empty()) return spec.heads;
  Axis heads;
  for (const std::int64_t hidden : spec.hidden) {
    if (hidden % head_dim != 0) {
      throw UsageError(
          fmt::format("--hidden {} is not a multiple of --head-dim {}", hidden, head_dim));
    }
    heads.push_back(hidden / head_dim);
  }
  return heads;
}

void check_count(const GridSpec& spec, std::size_t lengths_count) {
  std::size_t count = 1;
  for (const std::size_t axis :
       {spec.dtype.size(), spec.mask.size(), spec.head_dim.size(),
        std::max(spec.heads.size(), spec.hidden.size()), spec.kv_heads.size(), spec.batch.size(),
        spec.tokens.size(), lengths_count}) {
    // Each axis is at most 10^4 values (axis.h) and lengths at most their square, so nothing
    // overflows.
    count *= std::max<std::size_t>(axis, 1);
    if (count > kMaxProblems) {
      throw UsageError(
          fmt::format("the axes give more than {} problems: give fewer values", kMaxProblems));
    }
  }
}

/// The one place where the sequence-dependent axes meet: appends `problem` at every batch and
/// length.
void add_lengths(const GridSpec& spec, Problem problem, std::vector<Problem>& problems) {
  const Axis one{1};
  const bool by_tokens = !spec.tokens.empty();
  const Axis& outer = by_tokens ? spec.tokens : (spec.batch.empty() ? one : spec.batch);
  for (const std::int64_t value : outer) {
    for (const auto& [n_q, n_kv] : lengths(spec)) {
      problem.batch = by_tokens ? std::max<std::int64_t>(1, value / n_q) : value;
      problem.n_q = n_q;
      problem.n_kv = n_kv;
      problem.validate();
      problems.push_back(problem);
    }
  }
}

}  // namespace

std::vector<Problem> make_grid(const GridSpec& spec) {
  check_axes(spec);
  check_count(spec, spec.n.empty() ? spec.n_q.size() * spec.n_kv.size() : spec.n.size());
  std::vector<Problem> problems;
  for (const Dtype dtype : spec.dtype) {
    for (const Mask mask : spec.mask) {
      for (const std::int64_t head_dim : spec.head_dim) {
        for (const std::int64_t heads : heads_of(spec, head_dim)) {
          for (const std::int64_t kv_heads : spec.kv_heads.empty() ? Axis{heads} : spec.kv_heads) {
            Problem problem;
            problem.heads = heads;
            problem.kv_heads = kv_heads;
            problem.head_dim = head_dim;
            problem.dtype = dtype;
            problem.mask = mask;
            problem.scale = default_scale(head_dim);
            add_lengths(spec, problem, problems);
          }
        }
      }
    }
  }
  return problems;
}

}  // namespace flashbench
