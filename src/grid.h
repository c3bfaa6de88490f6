#pragma once

#include <cstdint>
#include <vector>

#include "problem.h"

namespace flashbench {

/// The axes of a sweep. An empty vector: the option was not given. Exactly one of each pair that
/// excludes one another may be given; make_grid() says which clash.
struct GridSpec {
  std::vector<std::int64_t> n;    ///< n_q = n_kv
  std::vector<std::int64_t> n_q;  ///< with n_kv, in the place of n
  std::vector<std::int64_t> n_kv;
  std::vector<std::int64_t> batch;     ///< 1 when neither this nor tokens is given
  std::vector<std::int64_t> tokens;    ///< batch = max(1, tokens / n); needs n
  std::vector<std::int64_t> heads;     ///< query heads
  std::vector<std::int64_t> hidden;    ///< heads = hidden / head_dim, in the place of heads
  std::vector<std::int64_t> kv_heads;  ///< as many as query heads when not given
  std::vector<std::int64_t> head_dim;
  std::vector<Dtype> dtype;
  std::vector<Mask> mask;
};

/// Every combination, the sequence length varying fastest, validated; scale = 1 / sqrt(head_dim).
/// Throws UsageError for clashing or missing axes, a hidden width that is no multiple of a head
/// dimension, heads that kv_heads does not divide, sizes beyond 64 bits, and more than
/// kMaxProblems.
std::vector<Problem> make_grid(const GridSpec& spec);
inline constexpr std::size_t kMaxProblems = 100'000;

}  // namespace flashbench
