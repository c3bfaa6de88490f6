#include "reference/cpu_rows.h"

#include "reference/simd_targets.h"  // before any header of Highway

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/cpu_rows.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "reference/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashbench::HWY_NAMESPACE {
namespace {

constexpr auto kStep = static_cast<std::int64_t>(kLanes);

void load(const void* from, Dtype dtype, std::int64_t index, std::int64_t row_stride,
          std::int64_t rows, std::int64_t columns, float* to) {
  for (std::int64_t r = 0; r < rows; ++r)
    load_row(from, dtype, index + r * row_stride, columns, to + r * columns);
}

void store(const float* from, std::int64_t rows, std::int64_t columns, void* to, Dtype dtype,
           std::int64_t index, std::int64_t row_stride) {
  for (std::int64_t r = 0; r < rows; ++r)
    store_row(from + r * columns, columns, to, dtype, index + r * row_stride);
}

/// values[i] = apply(values[i]) a vector at a time; the last one is filled up with `fill`.
template <typename Apply>
HWY_INLINE void transform(float* values, std::int64_t count, float fill, const Apply& apply) {
  std::int64_t i = 0;
  for (; i + kStep <= count; i += kStep)
    hn::StoreU(apply(hn::LoadU(kFloats, values + i)), kFloats, values + i);
  if (i == count) return;
  HWY_ALIGN float tail[kLanes];
  std::fill_n(tail, kLanes, fill);
  std::copy(values + i, values + count, tail);
  hn::Store(apply(hn::Load(kFloats, tail)), kFloats, tail);
  std::copy_n(tail, count - i, values + i);
}

float largest(const float* values, std::int64_t count) {
  constexpr int kChains = 4;  // independent, so that loads and not the latency of max limit
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  Float most[kChains];
  for (Float& m : most) m = hn::Set(kFloats, kLowest);
  std::int64_t i = 0;
  for (; i + kChains * kStep <= count; i += kChains * kStep) {
    for (int c = 0; c < kChains; ++c)
      most[c] = hn::Max(most[c], hn::LoadU(kFloats, values + i + c * kStep));
  }
  float result = hn::GetLane(
      hn::MaxOfLanes(kFloats, hn::Max(hn::Max(most[0], most[1]), hn::Max(most[2], most[3]))));
  for (; i < count; ++i) result = std::max(result, values[i]);
  return result;
}

float softmax(void* scores, Dtype dtype, std::int64_t index, std::int64_t visible,
              std::int64_t count, float* scratch) {
  float* values = dtype == Dtype::f32 ? static_cast<float*>(scores) + index : scratch;
  if (dtype != Dtype::f32) load_row(scores, dtype, index, visible, values);
  const float m = largest(values, visible);
  const Float shift = hn::Set(kFloats, m);
  const Float to_base_2 = hn::Set(kFloats, std::numbers::log2e_v<float>);
  Float sums = hn::Zero(kFloats);
  transform(values, visible, -std::numeric_limits<float>::infinity(), [&](Float s) HWY_ATTR {
    const Float weight = exp2(hn::Mul(hn::Sub(s, shift), to_base_2));
    sums = hn::Add(sums, weight);
    return weight;
  });
  const float sum = hn::GetLane(hn::SumOfLanes(kFloats, sums));
  const Float inverse = hn::Set(kFloats, 1.0F / sum);
  transform(values, visible, 0.0F, [&](Float weight) HWY_ATTR { return hn::Mul(weight, inverse); });
  if (dtype != Dtype::f32) store_row(values, visible, scores, dtype, index);
  // Zero is all bits zero in every dtype.
  const std::int64_t size = size_of(dtype);
  std::memset(static_cast<char*>(scores) + (index + visible) * size, 0,
              static_cast<std::size_t>((count - visible) * size));
  if (visible == 0) return -std::numeric_limits<float>::infinity();
  return static_cast<float>(static_cast<double>(m) + std::log(static_cast<double>(sum)));
}

void exp2_all(const float* x, std::int64_t count, float* y) {
  std::copy(x, x + count, y);
  transform(y, count, 0.0F, [](Float value) HWY_ATTR { return exp2(value); });
}

}  // namespace
}  // namespace flashbench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace flashbench {

HWY_EXPORT(load);
HWY_EXPORT(store);
HWY_EXPORT(softmax);
HWY_EXPORT(exp2_all);

void load_matrix(const void* from, Dtype dtype, std::int64_t index, std::int64_t row_stride,
                 std::int64_t rows, std::int64_t columns, float* to) {
  HWY_DYNAMIC_DISPATCH(load)(from, dtype, index, row_stride, rows, columns, to);
}

void store_matrix(const float* from, std::int64_t rows, std::int64_t columns, void* to, Dtype dtype,
                  std::int64_t index, std::int64_t row_stride) {
  HWY_DYNAMIC_DISPATCH(store)(from, rows, columns, to, dtype, index, row_stride);
}

float softmax_row(void* scores, Dtype dtype, std::int64_t index, std::int64_t visible,
                  std::int64_t count, float* scratch) {
  return HWY_DYNAMIC_DISPATCH(softmax)(scores, dtype, index, visible, count, scratch);
}

void exp2_row(const float* x, std::int64_t count, float* y) {
  HWY_DYNAMIC_DISPATCH(exp2_all)(x, count, y);
}

}  // namespace flashbench

#endif
