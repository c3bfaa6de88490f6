#pragma once

#include <cstdint>

#include "tensor.h"

namespace flashbench {

/// A view [rows, head_dim] of one head. `row_stride` in elements.
template <class Element>
struct Matrix {
  Element* data;
  std::int64_t row_stride;
  std::int64_t rows;
};

/// A tensor as kernels take it; strides in elements.
struct TensorView {
  void* data;  // [batch, rows, heads, head_dim]
  std::int64_t batch_stride, row_stride, head_stride;

  template <class Element>
  __device__ Matrix<Element> head(std::int64_t batch, std::int64_t head, std::int64_t rows) const {
    return {static_cast<Element*>(data) + batch * batch_stride + head * head_stride, row_stride,
            rows};
  }
};

inline TensorView view_of(const Tensor& tensor) {
  return {tensor.data, tensor.stride[0], tensor.stride[1], tensor.stride[2]};
}

/// Whether every row can be read in 16-byte vectors.
inline bool is_vectorisable(const Tensor& tensor) {
  const std::int64_t size = size_of(tensor.dtype);
  return reinterpret_cast<std::uintptr_t>(tensor.data) % 16 == 0 &&
         tensor.stride[0] * size % 16 == 0 && tensor.stride[1] * size % 16 == 0 &&
         tensor.stride[2] * size % 16 == 0;
}

}  // namespace flashbench
