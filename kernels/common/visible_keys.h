#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

#include "problem.h"

namespace flashbench {

/// What of a problem decides which keys a row sees, for host and device alike.
struct Visibility {
  std::int64_t n_q, n_kv;
  bool causal;

  /// The position of a row among the keys: the two ends are aligned. May be negative.
  __host__ __device__ std::int64_t position(std::int64_t row) const { return row + n_kv - n_q; }
  /// Keys that a row sees, a prefix, as Problem::visible_keys() has it; rows may lie past the end.
  __host__ __device__ std::int64_t visible_keys(std::int64_t row) const {
    if (!causal) return n_kv;
    return std::clamp(position(row) + 1, std::int64_t{0}, n_kv);
  }
};

inline Visibility visibility_of(const Problem& problem) {
  return {problem.n_q, problem.n_kv, problem.mask == Mask::causal};
}

}  // namespace flashbench
