#include "problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "error.h"

namespace flashbench {

std::string_view to_string(Mask mask) {
  return mask == Mask::none ? "none" : "causal";
}

double default_scale(std::int64_t head_dim) {
  return 1.0 / std::sqrt(static_cast<double>(head_dim));
}

std::int64_t checked_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    throw UsageError(fmt::format("problem too large: {} x {} exceeds 64 bits", a, b));
  }
  return product;
}

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    throw UsageError(fmt::format("problem too large: {} + {} exceeds 64 bits", a, b));
  }
  return sum;
}

void Problem::validate() const {
  const auto positive = [](std::string_view name, std::int64_t value) {
    if (value <= 0) throw UsageError(fmt::format("{} is {}: it must be at least 1", name, value));
  };
  positive("batch", batch);
  positive("heads", heads);
  positive("kv-heads", kv_heads);
  positive("n-q", n_q);
  positive("n-kv", n_kv);
  positive("head-dim", head_dim);
  if (heads % kv_heads != 0) {
    throw UsageError(fmt::format("heads {} is not a multiple of kv-heads {}", heads, kv_heads));
  }
  if (!(scale > 0.0) || !std::isfinite(scale)) {
    throw UsageError(fmt::format("scale {} is not a positive number", scale));
  }
  checked_multiply(operand_bytes(), 2);
  // The largest product anywhere: operations, four per score and head dimension.
  checked_multiply(checked_multiply(score_elements(), head_dim), 4);
}

std::int64_t Problem::q_elements() const {
  return checked_multiply(checked_multiply(batch, heads), checked_multiply(n_q, head_dim));
}

std::int64_t Problem::kv_elements() const {
  return checked_multiply(checked_multiply(batch, kv_heads), checked_multiply(n_kv, head_dim));
}

std::int64_t Problem::operand_bytes() const {
  return checked_multiply(checked_multiply(2, size_of(dtype)),
                          checked_add(q_elements(), kv_elements()));
}

std::int64_t Problem::score_elements() const {
  return checked_multiply(rows(), n_kv);
}

std::int64_t Problem::rows() const {
  return checked_multiply(checked_multiply(batch, heads), n_q);
}

std::int64_t Problem::visible_keys(std::int64_t row) const {
  if (mask == Mask::none) return n_kv;
  return std::clamp<std::int64_t>(row + n_kv - n_q + 1, 0, n_kv);
}

std::int64_t Problem::visible_pairs() const {
  if (mask == Mask::none) return checked_multiply(n_q, n_kv);
  // Row i sees i + n_kv - n_q + 1 keys; rows before n_q - n_kv see none.
  const std::int64_t seeing = std::min(n_q, n_kv);
  const std::int64_t first = n_kv - seeing + 1;  // keys of the first row that sees any
  // An arithmetic series from `first` to n_kv; of its two factors one is even.
  const std::int64_t ends = first + n_kv;
  return seeing % 2 == 0 ? checked_multiply(seeing / 2, ends) : checked_multiply(seeing, ends / 2);
}

double Problem::flops() const {
  return 4.0 * static_cast<double>(head_dim) * exps();
}

double Problem::exps() const {
  return static_cast<double>(batch) * static_cast<double>(heads) *
         static_cast<double>(visible_pairs());
}

std::string Problem::to_string() const {
  const std::string head_part =
      kv_heads == heads ? fmt::format("H{}", heads) : fmt::format("H{}/{}", heads, kv_heads);
  const std::string n_part =
      n_q == n_kv ? fmt::format("N{}", n_q) : fmt::format("N{}x{}", n_q, n_kv);
  return fmt::format("B{} {} {} d{} {}{}", batch, head_part, n_part, head_dim,
                     flashbench::to_string(dtype), mask == Mask::causal ? " causal" : "");
}

}  // namespace flashbench
