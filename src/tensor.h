#pragma once

#include <array>
#include <cstdint>

#include "problem.h"

namespace flashbench {

/// A view of device memory: shape [batch, rows, heads, head_dim], strides in elements. The last
/// stride is 1. Host code must not dereference `data` unless the device is the CPU.
struct Tensor {
  void* data = nullptr;
  Dtype dtype = Dtype::f32;
  std::array<std::int64_t, 4> shape{};
  std::array<std::int64_t, 4> stride{};

  /// Element index of (batch, row, head, column) from `data`.
  std::int64_t at(std::int64_t b, std::int64_t n, std::int64_t h, std::int64_t d) const {
    return b * stride[0] + n * stride[1] + h * stride[2] + d * stride[3];
  }
};

/// A contiguous [batch, rows, heads, head_dim] view of `data`.
inline Tensor contiguous(void* data, Dtype dtype, std::int64_t batch, std::int64_t rows,
                         std::int64_t heads, std::int64_t head_dim) {
  return {data,
          dtype,
          {batch, rows, heads, head_dim},
          {rows * heads * head_dim, heads * head_dim, head_dim, 1}};
}

/// The tensors of one problem. Q, O: [batch, n_q, heads, head_dim]; K, V: [batch, n_kv, kv_heads,
/// head_dim].
struct Operands {
  Tensor q;
  Tensor k;
  Tensor v;
  Tensor o;
  /// Natural-log-sum-exp of the scaled scores, contiguous [batch, heads, n_q], or null when not
  /// asked for.
  float* lse = nullptr;
};

}  // namespace flashbench
