#pragma once

#include <cstdint>

#include "host_device.h"
#include "inputs.h"
#include "problem.h"

// The inputs element by element. A value depends on (seed, tensor, element index) alone, so
// elements can be made in any order on any device; there is no libm call and no contractible a * b
// + c, so that they agree bit for bit.

namespace flashbench {

enum class TensorRole : std::uint8_t { q, k, v };

/// What a problem tells its inputs: a copy that fits a kernel's arguments.
struct InputShape {
  std::int64_t n_q = 0;
  std::int64_t n_kv = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  Dtype dtype = Dtype::f32;
  bool causal = false;
  Distribution distribution = Distribution::normal;
  std::uint64_t seed = 0;
  float root_dim = 0;  ///< sqrt(head_dim), which undoes the default scale
};

InputShape input_shape(const Problem& problem, const InputSpec& spec);

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014): a bijection of 64 bits that mixes them
/// well.
FLASHBENCH_HOST_DEVICE inline std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}

/// 64 random bits: number `index` of stream `stream`.
FLASHBENCH_HOST_DEVICE inline std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream,
                                                        std::uint64_t index) {
  const std::uint64_t key = mix64(seed * 0x9e3779b97f4a7c15ULL + stream + 1);
  return mix64(key ^ mix64(index * 0x9e3779b97f4a7c15ULL + key));
}

FLASHBENCH_HOST_DEVICE inline int count_bits(std::uint64_t x) {
  x -= (x >> 1U) & 0x5555555555555555ULL;
  x = (x & 0x3333333333333333ULL) + ((x >> 2U) & 0x3333333333333333ULL);
  x = (x + (x >> 4U)) & 0x0f0f0f0f0f0f0f0fULL;
  return static_cast<int>((x * 0x0101010101010101ULL) >> 56U);
}

/// Standard normal from 128 random bits in integer arithmetic: 64 fair coins (de Moivre-Laplace;
/// variance 16) smoothed over their unit steps by the sum of two uniforms (variance 1/6). |z|
/// < 8.2.
FLASHBENCH_HOST_DEVICE inline float normal_from_bits(std::uint64_t coins, std::uint64_t smooth) {
  const auto two = static_cast<std::int64_t>((smooth >> 32U) + (smooth & 0xffffffffULL));
  const std::int64_t fixed =
      (static_cast<std::int64_t>(count_bits(coins)) - 33) * (std::int64_t{1} << 32) + two;
  constexpr double kUnit = 5.7906844114629427e-11;  // 2^-32 / sqrt(16 + 1/6)
  return static_cast<float>(static_cast<double>(fixed) * kUnit);
}

/// [-1, 1), a multiple of 2^-23.
FLASHBENCH_HOST_DEVICE inline float uniform_from_bits(std::uint64_t bits) {
  return static_cast<float>(static_cast<std::int32_t>(bits >> 32U) >> 8) * 0x1p-23F;
}

FLASHBENCH_HOST_DEVICE inline float nan_value() {
  return __builtin_nanf("");
}
FLASHBENCH_HOST_DEVICE inline float infinite_value() {
  return __builtin_inff();
}

/// Element (batch, row, head, column) of Q, K or V, to be rounded to the dtype.
/// `row` is a query for Q and a key for K and V; `head` a query head for Q and a key/value head for
/// K and V.
FLASHBENCH_HOST_DEVICE inline float input_value(const InputShape& shape, TensorRole role,
                                                std::int64_t batch, std::int64_t row,
                                                std::int64_t head, std::int64_t column) {
  const std::int64_t rows = role == TensorRole::q ? shape.n_q : shape.n_kv;
  const std::int64_t heads = role == TensorRole::q ? shape.heads : shape.kv_heads;
  const std::int64_t d = shape.head_dim;
  const std::int64_t row_index = (batch * rows + row) * heads + head;
  const auto stream = static_cast<std::uint64_t>(role) * 4;
  const auto index = static_cast<std::uint64_t>(row_index * d + column);
  const std::uint64_t bits = random_bits(shape.seed, stream, index);
  const float normal = normal_from_bits(bits, mix64(bits + 0x9e3779b97f4a7c15ULL));
  const bool is_q = role == TensorRole::q;
  const bool is_k = role == TensorRole::k;
  const bool is_v = role == TensorRole::v;

  switch (shape.distribution) {
    case Distribution::normal: return normal;
    case Distribution::uniform: return uniform_from_bits(bits);
    case Distribution::large: return is_v ? normal : 12.0F * normal;
    case Distribution::equal: {
      if (!is_k) return normal;
      const auto first = static_cast<std::uint64_t>((batch * heads + head) * d + column);
      const std::uint64_t common = random_bits(shape.seed, stream + 1, first);
      return normal_from_bits(common, mix64(common + 1));
    }
    case Distribution::one_hot: {
      // Keys are random sign vectors; the query is 16 times that of its key.
      if (is_v) return normal;
      if (is_k) return (bits >> 63U) != 0 ? 1.0F : -1.0F;
      std::int64_t visible = shape.causal ? row + shape.n_kv - shape.n_q + 1 : shape.n_kv;
      visible = visible < 1 ? 1 : (visible > shape.n_kv ? shape.n_kv : visible);
      const std::uint64_t draw =
          random_bits(shape.seed, stream + 1, static_cast<std::uint64_t>(row_index));
      const auto key =
          static_cast<std::int64_t>((draw >> 1U) % static_cast<std::uint64_t>(visible));
      const std::int64_t kv_head = head / (shape.heads / shape.kv_heads);
      const std::int64_t key_row = (batch * shape.n_kv + key) * shape.kv_heads + kv_head;
      const std::uint64_t sign =
          random_bits(shape.seed, static_cast<std::uint64_t>(TensorRole::k) * 4,
                      static_cast<std::uint64_t>(key_row * d + column));
      return (sign >> 63U) != 0 ? 16.0F : -16.0F;
    }
    case Distribution::decreasing:
    case Distribution::increasing: {
      // Columns 0 and 1 make the slope, in a coarse and a fine part so that 8 bits resolve it.
      if (is_v) return normal;
      if (column > 1) return 0.25F * normal;
      if (is_q) return 4.0F;
      const std::int64_t place =
          shape.distribution == Distribution::increasing ? row : shape.n_kv - 1 - row;
      const double height = 10.0 * static_cast<double>(shape.root_dim) *
                            static_cast<double>(place) / static_cast<double>(shape.n_kv);
      const double coarse = static_cast<double>(static_cast<std::int64_t>(height));
      return static_cast<float>(column == 0 ? coarse : height - coarse);
    }
    case Distribution::offset: {
      if (is_v || column > 0) return normal;
      if (is_k) return 16.0F;
      const std::uint64_t sign =
          random_bits(shape.seed, stream + 1, static_cast<std::uint64_t>(row_index));
      return (sign >> 63U) != 0 ? 64.0F * shape.root_dim : -64.0F * shape.root_dim;
    }
    case Distribution::sparse: {
      const std::uint64_t keep = random_bits(shape.seed, stream + 1, index);
      if (is_v && row % 2 == 1) return 0.0F;
      return keep % 8 == 0 ? 2.0F * normal : 0.0F;
    }
    case Distribution::outlier: {
      if (is_q || column % 16 != 5) return normal;
      if (is_v) return 8.0F * normal;
      const float mean = (column / 16 + head) % 2 == 0 ? 10.0F : -10.0F;
      return mean + normal;
    }
    case Distribution::denormal: return normal * (shape.dtype == Dtype::f16 ? 0x1p-16F : 0x1p-128F);
    case Distribution::huge: {
      // K reaches the largest number; V stays 2^26 below it where f32 sums of V would overflow
      // otherwise.
      const bool half = shape.dtype == Dtype::f16;
      if (is_q) return normal * (half ? 0x1p-15F : 0x1p-126F);
      const float unit = uniform_from_bits(bits);
      if (is_k) return unit * (half ? 65000.0F : 0x1.fcp127F);
      return unit * (half ? 65000.0F : 0x1p100F);
    }
    case Distribution::ones: return is_v ? 1.0F : normal;
    case Distribution::position: {
      if (!is_v) return normal;
      const std::int64_t block = (shape.n_kv + d - 1) / d;
      return row / block == column ? 1.0F : 0.0F;
    }
    case Distribution::non_finite_hidden: {
      // The last three keys. Under a causal mask only the last three queries see any of them.
      const std::int64_t from_end = shape.n_kv - 1 - row;
      if (!is_k || from_end > 2 || column != from_end % d) return normal;
      return from_end == 0 ? nan_value() : (from_end == 1 ? infinite_value() : -infinite_value());
    }
    case Distribution::non_finite_visible: {
      if (row != 0 || column != 0) return normal;
      if (is_k && head == 0) return nan_value();
      // Rows without keys would multiply it by a weight of 0.
      if (is_v && head == 1 && !(shape.causal && shape.n_q > shape.n_kv)) return infinite_value();
      return normal;
    }
  }
  return 0.0F;
}

}  // namespace flashbench
