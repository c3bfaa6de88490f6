// What the Highway kernels share; compiled once for each instruction set by foreach_target.h, hence
// no ordinary include guard.

#if defined(FLASHBENCH_REFERENCE_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHBENCH_REFERENCE_SIMD_INL_H_
#undef FLASHBENCH_REFERENCE_SIMD_INL_H_
#else
#define FLASHBENCH_REFERENCE_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <numbers>

#include "dtype.h"

HWY_BEFORE_NAMESPACE();
namespace flashbench::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Float = hn::Vec<Floats>;
inline constexpr Floats kFloats{};
inline constexpr std::size_t kLanes = hn::MaxLanes(kFloats);

/// 2^x for x <= 127: relative error below 2^-23 (tested over every binary exponent), 2^0 = 1
/// exactly, 0 where the result would be below 2^-125.5, NaN for NaN. 2^x = 2^n 2^f with n the
/// nearest integer, which adding 1.5 2^23 leaves in the low bits; 2^f on [-1/2, 1/2] by the
/// polynomial with the least maximal relative error among those with constant term 1 (2.0e-9 for
/// degree 6, found by Lawson's iteration).
HWY_INLINE Float exp2(Float x) {
  const Float shifter = hn::Set(kFloats, 0x1.8p23F);
  const Float shifted = hn::Add(x, shifter);
  const Float f = hn::Sub(x, hn::Sub(shifted, shifter));
  Float power = hn::Set(kFloats, 0.00015353362003736864F);
  power = hn::MulAdd(power, f, hn::Set(kFloats, 0.0013398874452661231F));
  power = hn::MulAdd(power, f, hn::Set(kFloats, 0.009618437357619511F));
  power = hn::MulAdd(power, f, hn::Set(kFloats, 0.05550332471041385F));
  power = hn::MulAdd(power, f, hn::Set(kFloats, 0.24022647913627598F));
  power = hn::MulAdd(power, f, hn::Set(kFloats, std::numbers::ln2_v<float>));
  power = hn::MulAdd(power, f, hn::Set(kFloats, 1.0F));
  const hn::RebindToSigned<Floats> integers;
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(integers, shifted));
  const Float result = hn::BitCast(kFloats, hn::Add(hn::BitCast(integers, power), exponent));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(kFloats, -125.5F)), result);
}

// Conversion instructions between f16 and f32: everywhere but on x86 before AVX2.
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX2
inline constexpr bool kHasHalf = false;
#else
inline constexpr bool kHasHalf = true;
#endif

/// kLanes elements of `data` from `index` on, as f32.
HWY_INLINE Float load_floats(const void* data, Dtype dtype, std::int64_t index) {
  if (dtype == Dtype::f32) return hn::LoadU(kFloats, static_cast<const float*>(data) + index);
  const auto* bits = static_cast<const std::uint16_t*>(data) + index;
  if (dtype == Dtype::bf16) {
    const hn::Rebind<std::uint16_t, Floats> halves;
    const hn::RebindToUnsigned<Floats> words;
    return hn::BitCast(kFloats, hn::ShiftLeft<16>(hn::PromoteTo(words, hn::LoadU(halves, bits))));
  }
  if constexpr (kHasHalf) {
    const hn::Rebind<hwy::float16_t, Floats> halves;
    return hn::PromoteTo(kFloats, hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(bits)));
  } else {
    HWY_ALIGN float values[kLanes];
    for (std::size_t i = 0; i < kLanes; ++i) values[i] = f16_to_float(bits[i]);
    return hn::Load(kFloats, values);
  }
}

/// Its counterpart: rounds to nearest even.
HWY_INLINE void store_floats(Float value, void* data, Dtype dtype, std::int64_t index) {
  if (dtype == Dtype::f32) return hn::StoreU(value, kFloats, static_cast<float*>(data) + index);
  auto* bits = static_cast<std::uint16_t*>(data) + index;
  if (dtype == Dtype::bf16) {
    const hn::Rebind<std::uint16_t, Floats> halves;
    const hn::RebindToUnsigned<Floats> words;
    const auto word = hn::BitCast(words, value);
    const auto odd = hn::And(hn::ShiftRight<16>(word), hn::Set(words, 1U));
    const auto rounded = hn::Add(hn::Add(word, hn::Set(words, 0x7fffU)), odd);
    const auto quiet = hn::Or(word, hn::Set(words, 0x400000U));
    const auto result = hn::IfThenElse(hn::RebindMask(words, hn::IsNaN(value)), quiet, rounded);
    return hn::StoreU(hn::TruncateTo(halves, hn::ShiftRight<16>(result)), halves, bits);
  }
  if constexpr (kHasHalf) {
    const hn::Rebind<hwy::float16_t, Floats> halves;
    hn::StoreU(hn::DemoteTo(halves, value), halves, reinterpret_cast<hwy::float16_t*>(bits));
  } else {
    HWY_ALIGN float values[kLanes];
    hn::Store(value, kFloats, values);
    for (std::size_t i = 0; i < kLanes; ++i) bits[i] = float_to_f16(values[i]);
  }
}

/// to[0, count) = from[index, index + count) as f32, count >= 0. Reads and writes nothing beyond.
HWY_INLINE void load_row(const void* from, Dtype dtype, std::int64_t index, std::int64_t count,
                         float* to) {
  constexpr auto kStep = static_cast<std::int64_t>(kLanes);
  std::int64_t i = 0;
  for (; i + kStep <= count; i += kStep)
    hn::StoreU(load_floats(from, dtype, index + i), kFloats, to + i);
  for (; i < count; ++i) to[i] = static_cast<float>(load_element(from, dtype, index + i));
}

/// to[index, index + count) = from[0, count), rounded to `dtype`.
HWY_INLINE void store_row(const float* from, std::int64_t count, void* to, Dtype dtype,
                          std::int64_t index) {
  constexpr auto kStep = static_cast<std::int64_t>(kLanes);
  std::int64_t i = 0;
  for (; i + kStep <= count; i += kStep)
    store_floats(hn::LoadU(kFloats, from + i), to, dtype, index + i);
  for (; i < count; ++i) store_element(to, dtype, index + i, from[i]);
}

}  // namespace flashbench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
