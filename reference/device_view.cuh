#pragma once

#include <cstdint>

#include "src/tensor.h"

namespace flashbench {

/// A Tensor as kernels index it: [batch, rows, heads, head_dim] with strides in elements.
template <class Element>
struct View {
  Element* data;
  std::int64_t batch, rows, heads, head_dim;
  std::int64_t batch_stride, row_stride, head_stride;

  explicit View(const Tensor& tensor)
      : data(static_cast<Element*>(tensor.data)),
        batch(tensor.shape[0]),
        rows(tensor.shape[1]),
        heads(tensor.shape[2]),
        head_dim(tensor.shape[3]),
        batch_stride(tensor.stride[0]),
        row_stride(tensor.stride[1]),
        head_stride(tensor.stride[2]) {}

  __device__ Element* row(std::int64_t b, std::int64_t n, std::int64_t h) const {
    return data + b * batch_stride + n * row_stride + h * head_stride;
  }
};

}  // namespace flashbench
