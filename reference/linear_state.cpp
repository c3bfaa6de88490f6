#include "reference/linear_state.h"

#include "reference/simd_targets.h"  // before any header of Highway

#include <algorithm>
#include <cmath>
#include <numbers>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/linear_state.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "reference/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashbench::HWY_NAMESPACE {
namespace {

constexpr auto kStep = static_cast<std::int64_t>(kLanes);

void features(const float* x, std::int64_t count, float factor, float* phi) {
  const Float zero = hn::Zero(kFloats);
  const auto feature = [&](Float value) HWY_ATTR {
    const Float scaled = hn::Mul(value, hn::Set(kFloats, factor));
    const Float below =
        exp2(hn::Mul(hn::Min(scaled, zero), hn::Set(kFloats, std::numbers::log2e_v<float>)));
    return hn::Add(below, hn::Max(scaled, zero));
  };
  std::int64_t i = 0;
  for (; i + kStep <= count; i += kStep)
    hn::StoreU(feature(hn::LoadU(kFloats, x + i)), kFloats, phi + i);
  if (i == count) return;
  HWY_ALIGN float tail[kLanes] = {};
  std::copy(x + i, x + count, tail);
  hn::Store(feature(hn::Load(kFloats, tail)), kFloats, tail);
  std::copy_n(tail, count - i, phi + i);
}

void outer(const float* a, const float* b, std::int64_t rows, std::int64_t columns, float* state) {
  for (std::int64_t r = 0; r < rows; ++r) {
    float* line = state + r * columns;
    const Float scalar = hn::Set(kFloats, a[r]);
    std::int64_t c = 0;
    for (; c + kStep <= columns; c += kStep) {
      hn::StoreU(hn::MulAdd(scalar, hn::LoadU(kFloats, b + c), hn::LoadU(kFloats, line + c)),
                 kFloats, line + c);
    }
    for (; c < columns; ++c) line[c] += a[r] * b[c];
  }
}

void times(const float* a, const float* state, std::int64_t rows, std::int64_t columns,
           float* out) {
  std::int64_t c = 0;
  for (; c + kStep <= columns; c += kStep) {
    Float sum = hn::Zero(kFloats);
    for (std::int64_t r = 0; r < rows; ++r) {
      sum = hn::MulAdd(hn::Set(kFloats, a[r]), hn::LoadU(kFloats, state + r * columns + c), sum);
    }
    hn::StoreU(sum, kFloats, out + c);
  }
  for (; c < columns; ++c) {
    out[c] = 0.0F;
    for (std::int64_t r = 0; r < rows; ++r) out[c] += a[r] * state[r * columns + c];
  }
}

}  // namespace
}  // namespace flashbench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace flashbench {

HWY_EXPORT(features);
HWY_EXPORT(outer);
HWY_EXPORT(times);

void linear_features(const float* x, std::int64_t count, float factor, float* phi) {
  HWY_DYNAMIC_DISPATCH(features)(x, count, factor, phi);
}

void add_outer_product(const float* a, const float* b, std::int64_t rows, std::int64_t columns,
                       float* state) {
  HWY_DYNAMIC_DISPATCH(outer)(a, b, rows, columns, state);
}

void times_state(const float* a, const float* state, std::int64_t rows, std::int64_t columns,
                 float* out) {
  HWY_DYNAMIC_DISPATCH(times)(a, state, rows, columns, out);
}

}  // namespace flashbench

#endif
