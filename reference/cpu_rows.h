#pragma once

#include <cstdint>

#include "dtype.h"

namespace flashbench {

/// to [rows, columns] = the matrix at element `index` of `from`, its rows `row_stride` elements
/// apart, as f32.
void load_matrix(const void* from, Dtype dtype, std::int64_t index, std::int64_t row_stride,
                 std::int64_t rows, std::int64_t columns, float* to);

/// Its counterpart; rounds to nearest even.
void store_matrix(const float* from, std::int64_t rows, std::int64_t columns, void* to, Dtype dtype,
                  std::int64_t index, std::int64_t row_stride);

/// Softmax in place, in f32, of `visible` scores at element `index`; the elements after them up to
/// `count` become 0. Returns the scores' natural log-sum-exp (-infinity when visible is 0).
/// `scratch`: `visible` floats for a 16-bit dtype, unused for f32.
float softmax_row(void* scores, Dtype dtype, std::int64_t index, std::int64_t visible,
                  std::int64_t count, float* scratch);

/// y[i] = 2^x[i], by the exponential of the CPU kernels (reference/simd-inl.h); for its test.
void exp2_row(const float* x, std::int64_t count, float* y);

}  // namespace flashbench
