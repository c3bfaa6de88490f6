#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dtype.h"

namespace flashbench {

/// causal: aligned at the bottom right, key j is visible to query i when j <= i + n_kv - n_q.
/// A query that sees no key has output 0 and log-sum-exp -infinity.
enum class Mask : std::uint8_t { none, causal };

std::string_view to_string(Mask mask);

/// One attention problem: O = softmax(scale * Q K^T + mask) V, independently for each batch and
/// query head. Shapes: Q and O [batch, n_q, heads, head_dim], K and V [batch, n_kv, kv_heads,
/// head_dim]. Query head h reads key/value head h / (heads / kv_heads): grouped-query attention
/// (Ainslie et al. 2023).
struct Problem {
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t n_q = 1;
  std::int64_t n_kv = 1;
  std::int64_t head_dim = 64;
  Dtype dtype = Dtype::f32;
  Mask mask = Mask::none;
  double scale = 0.125;

  bool operator==(const Problem&) const = default;

  /// Throws UsageError when a size is not positive, heads is not a multiple of kv_heads, the scale
  /// is not finite and positive, or any count below does not fit 64 bits.
  void validate() const;

  std::int64_t q_elements() const;      ///< of Q, and of O
  std::int64_t kv_elements() const;     ///< of K, and of V
  std::int64_t operand_bytes() const;   ///< Q + K + V + O; also the compulsory HBM traffic
  std::int64_t score_elements() const;  ///< batch * heads * n_q * n_kv
  std::int64_t rows() const;            ///< batch * heads * n_q

  /// Keys that query `row` sees: a prefix of [0, n_kv).
  std::int64_t visible_keys(std::int64_t row) const;
  /// Visible (query, key) pairs of one head.
  std::int64_t visible_pairs() const;
  /// Algorithmic operations of both products: 4 * batch * heads * head_dim * visible_pairs().
  double flops() const;
  /// Exponentials: batch * heads * visible_pairs().
  double exps() const;

  /// "B1 H16 N16384 d128 bf16 causal" ("H16/4" with kv_heads 4, "N1024x4096" where n_q and n_kv
  /// differ).
  std::string to_string() const;
};

/// 1 / sqrt(head_dim).
double default_scale(std::int64_t head_dim);

/// Products and sums of non-negative sizes; throw UsageError "too large" on 64-bit overflow.
std::int64_t checked_multiply(std::int64_t a, std::int64_t b);
std::int64_t checked_add(std::int64_t a, std::int64_t b);

}  // namespace flashbench
