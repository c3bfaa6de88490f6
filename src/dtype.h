#pragma once

#include <cstdint>
#include <string_view>

namespace flashbench {

/// Storage type of Q, K, V and O.
enum class Dtype : std::uint8_t { f32, f16, bf16 };

std::string_view to_string(Dtype dtype);
/// Bytes of one element: 4 or 2.
std::int64_t size_of(Dtype dtype);
/// Unit roundoff 2^-p of round-to-nearest: p = 24 (f32), 11 (f16), 8 (bf16).
double unit_roundoff(Dtype dtype);
/// Half the smallest positive subnormal: the absolute error of rounding near zero.
double underflow_unit(Dtype dtype);
/// Largest finite value.
double max_finite(Dtype dtype);

/// IEEE 754 binary16 and bfloat16 as bit patterns; conversions from float round to nearest even.
float f16_to_float(std::uint16_t bits);
float bf16_to_float(std::uint16_t bits);
std::uint16_t float_to_f16(float value);
std::uint16_t float_to_bf16(float value);

/// Element `index` of an array of `dtype` in host memory, and its assignment.
double load_element(const void* data, Dtype dtype, std::int64_t index);
void store_element(void* data, Dtype dtype, std::int64_t index, float value);

}  // namespace flashbench
