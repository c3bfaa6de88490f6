#include "dtype.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace flashbench {
namespace {

/// Drawn alike on every run.
std::mt19937 seeded(unsigned seed) {
  return std::mt19937(seed);
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::array kAll = {Dtype::f32, Dtype::f16, Dtype::bf16};

/// The nearest value with `precision` bits, ties to even, in steps of at least 2^least.
double round_to(double value, int precision, int least) {
  int exponent = 0;
  std::frexp(value, &exponent);
  const double step = std::ldexp(1.0, std::max(exponent - precision, least));
  return std::nearbyint(value / step) * step;
}

TEST(DtypeTest, Names) {
  EXPECT_EQ(to_string(Dtype::f32), "f32");
  EXPECT_EQ(to_string(Dtype::f16), "f16");
  EXPECT_EQ(to_string(Dtype::bf16), "bf16");
}

TEST(DtypeTest, ConstantsAreThoseOfTheConversions) {
  for (const Dtype dtype : kAll) {
    SCOPED_TRACE(to_string(dtype));
    const auto rounded = [&](double value) {
      std::array<char, 4> element{};
      store_element(element.data(), dtype, 0, static_cast<float>(value));
      return load_element(element.data(), dtype, 0);
    };
    const double u = unit_roundoff(dtype);
    EXPECT_EQ(rounded(1.0 + 2.0 * u), 1.0 + 2.0 * u);  // the next number after 1
    if (dtype != Dtype::f32) {
      EXPECT_EQ(rounded(1.0 + u), 1.0);  // a tie
      EXPECT_EQ(rounded(1.0 + 1.01 * u), 1.0 + 2.0 * u);
      EXPECT_EQ(rounded(underflow_unit(dtype)), 0.0);  // a tie
      EXPECT_EQ(rounded(1.01 * underflow_unit(dtype)), 2.0 * underflow_unit(dtype));
      EXPECT_TRUE(std::isinf(rounded(max_finite(dtype) * (1.0 + u))));
    }
    EXPECT_EQ(rounded(2.0 * underflow_unit(dtype)), 2.0 * underflow_unit(dtype));
    EXPECT_EQ(rounded(max_finite(dtype)), max_finite(dtype));
  }
  EXPECT_EQ(size_of(Dtype::f32), 4);
  EXPECT_EQ(size_of(Dtype::f16), 2);
  EXPECT_EQ(size_of(Dtype::bf16), 2);
  EXPECT_EQ(unit_roundoff(Dtype::f32), std::ldexp(1.0, -24));
  EXPECT_EQ(underflow_unit(Dtype::f32), std::numeric_limits<float>::denorm_min() / 2.0);
}

TEST(DtypeTest, EveryF16SurvivesARoundTrip) {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float value = f16_to_float(bits);
    const std::uint32_t magnitude = bits & 0x7fffU;
    if (magnitude > 0x7c00U) {
      ASSERT_TRUE(std::isnan(value)) << i;
      ASSERT_TRUE(std::isnan(f16_to_float(float_to_f16(value)))) << i;
      continue;
    }
    // By the format's definition: sign, 5 bits of exponent, 10 of fraction.
    const auto exponent = static_cast<int>(magnitude >> 10U);
    const double fraction = magnitude & 0x3ffU;
    double want = exponent == 0    ? std::ldexp(fraction, -24)
                  : exponent == 31 ? std::numeric_limits<double>::infinity()
                                   : std::ldexp(1024.0 + fraction, exponent - 25);
    if ((bits & 0x8000U) != 0) want = -want;
    ASSERT_EQ(static_cast<double>(value), want) << i;
    ASSERT_EQ(float_to_f16(value), bits) << i;
  }
}

TEST(DtypeTest, EveryBf16SurvivesARoundTrip) {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float value = bf16_to_float(bits);
    if ((bits & 0x7fffU) > 0x7f80U) {
      ASSERT_TRUE(std::isnan(value)) << i;
      ASSERT_TRUE(std::isnan(bf16_to_float(float_to_bf16(value)))) << i;
      continue;
    }
    ASSERT_EQ(std::bit_cast<std::uint32_t>(value), i << 16U);
    ASSERT_EQ(float_to_bf16(value), bits) << i;
  }
}

TEST(DtypeTest, RoundsToNearestEven) {
  std::mt19937 generator = seeded(1);
  for (int i = 0; i < 200000; ++i) {
    // Finite in f16; half of them ties of one type or the other.
    const auto exponent = static_cast<int>(generator() % 39) - 24;
    std::uint32_t fraction = static_cast<std::uint32_t>(generator()) & 0x7fffffU;
    if (i % 4 == 0) fraction = (fraction & ~0x1fffU) | 0x1000U;
    if (i % 4 == 1) fraction = (fraction & ~0xffffU) | 0x8000U;
    const auto value =
        static_cast<float>(std::ldexp(8388608.0 + fraction, exponent - 23) * (i % 2 == 0 ? 1 : -1));
    ASSERT_EQ(static_cast<double>(f16_to_float(float_to_f16(value))),
              round_to(static_cast<double>(value), 11, -24))
        << value;
    ASSERT_EQ(static_cast<double>(bf16_to_float(float_to_bf16(value))),
              round_to(static_cast<double>(value), 8, -133))
        << value;
  }
}

TEST(DtypeTest, RoundsBeyondTheLargestToInfinity) {
  EXPECT_EQ(f16_to_float(float_to_f16(65519.99F)), 65504.0F);
  EXPECT_EQ(f16_to_float(float_to_f16(65520.0F)), kInfinity);
  EXPECT_EQ(f16_to_float(float_to_f16(-1e30F)), -kInfinity);
  EXPECT_EQ(bf16_to_float(float_to_bf16(std::numeric_limits<float>::max())), kInfinity);
  EXPECT_EQ(static_cast<double>(bf16_to_float(float_to_bf16(3.39e38F))), max_finite(Dtype::bf16));
}

TEST(DtypeTest, NaNStaysNaN) {
  for (const std::uint32_t bits : {0x7f800001U, 0x7fc00000U, 0xffffffffU, 0x7f80ffffU}) {
    const auto nan = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(nan))));
    EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(nan))));
  }
}

TEST(DtypeTest, PoisonIsNaNInEveryDtype) {
  const std::array<unsigned char, 4> poison = {0xff, 0xff, 0xff, 0xff};
  for (const Dtype dtype : kAll) EXPECT_TRUE(std::isnan(load_element(poison.data(), dtype, 0)));
}

TEST(DtypeTest, ElementsAreAddressedByIndex) {
  for (const Dtype dtype : kAll) {
    std::array<std::uint32_t, 8> memory{};
    for (std::int64_t i = 0; i < 8; ++i) {
      store_element(memory.data(), dtype, i, static_cast<float>(i) - 3.5F);
    }
    for (std::int64_t i = 0; i < 8; ++i) {
      EXPECT_EQ(load_element(memory.data(), dtype, i), static_cast<double>(i) - 3.5);
    }
  }
}

}  // namespace
}  // namespace flashbench
