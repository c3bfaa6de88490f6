#include "dtype.h"

#include <bit>
#include <cmath>
#include <limits>

namespace flashbench {

std::string_view to_string(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return "f32";
    case Dtype::f16: return "f16";
    case Dtype::bf16: return "bf16";
  }
  return "?";
}

std::int64_t size_of(Dtype dtype) {
  return dtype == Dtype::f32 ? 4 : 2;
}

double unit_roundoff(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return std::ldexp(1.0, -24);
    case Dtype::f16: return std::ldexp(1.0, -11);
    case Dtype::bf16: return std::ldexp(1.0, -8);
  }
  return 0.0;
}

double underflow_unit(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return std::ldexp(1.0, -150);
    case Dtype::f16: return std::ldexp(1.0, -25);
    case Dtype::bf16: return std::ldexp(1.0, -134);
  }
  return 0.0;
}

double max_finite(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return static_cast<double>(std::numeric_limits<float>::max());
    case Dtype::f16: return 65504.0;
    case Dtype::bf16: return std::ldexp(2.0 - std::ldexp(1.0, -7), 127);
  }
  return 0.0;
}

float f16_to_float(std::uint16_t bits) {
  return static_cast<float>(std::bit_cast<_Float16>(bits));
}

float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

std::uint16_t float_to_f16(float value) {
  return std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
}

std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
  const std::uint32_t round = 0x7fffU + ((bits >> 16U) & 1U);
  return static_cast<std::uint16_t>((bits + round) >> 16U);
}

double load_element(const void* data, Dtype dtype, std::int64_t index) {
  switch (dtype) {
    case Dtype::f32: return static_cast<const float*>(data)[index];
    case Dtype::f16: return f16_to_float(static_cast<const std::uint16_t*>(data)[index]);
    case Dtype::bf16: return bf16_to_float(static_cast<const std::uint16_t*>(data)[index]);
  }
  return 0.0;
}

void store_element(void* data, Dtype dtype, std::int64_t index, float value) {
  switch (dtype) {
    case Dtype::f32: static_cast<float*>(data)[index] = value; return;
    case Dtype::f16: static_cast<std::uint16_t*>(data)[index] = float_to_f16(value); return;
    case Dtype::bf16: static_cast<std::uint16_t*>(data)[index] = float_to_bf16(value); return;
  }
}

}  // namespace flashbench
