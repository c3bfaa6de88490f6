#include "reference/cpu_rows.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "dtype.h"

namespace flashbench {
namespace {

/// Drawn alike on every run.
std::mt19937 seeded(unsigned seed) {
  return std::mt19937(seed);
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Runs `check` once with each instruction set that this processor has and the build contains.
void with_every_instruction_set(const std::function<void()>& check) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    SCOPED_TRACE(hwy::TargetName(target));
    check();
  }
  hwy::SetSupportedTargetsForTest(0);
}

std::int64_t size(const std::vector<float>& values) {
  return static_cast<std::int64_t>(values.size());
}

std::vector<float> exp2_of(const std::vector<float>& x) {
  std::vector<float> y(x.size());
  exp2_row(x.data(), size(x), y.data());
  return y;
}

TEST(Exp2RowTest, IsWithinAnUlpEverywhere) {
  std::vector<float> x;
  constexpr int kPoints = 700000;
  for (int i = 0; i < kPoints; ++i) x.push_back(-125.5F + 252.5F * static_cast<float>(i) / kPoints);
  for (int exponent = -40; exponent < 7; ++exponent) {
    for (const float sign : {-1.0F, 1.0F}) x.push_back(sign * std::ldexp(1.0F, exponent));
  }
  with_every_instruction_set([&] {
    const std::vector<float> y = exp2_of(x);
    double worst = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = std::exp2(static_cast<double>(x[i]));
      worst = std::max(worst, std::abs(static_cast<double>(y[i]) - want) / want);
    }
    EXPECT_LT(worst, 0x1p-23);
  });
}

TEST(Exp2RowTest, IsExactAtIntegersAndAtTheEnds) {
  with_every_instruction_set([] {
    std::vector<float> integers;
    for (int n = -125; n <= 127; ++n) integers.push_back(static_cast<float>(n));
    const std::vector<float> powers = exp2_of(integers);
    for (std::size_t i = 0; i < powers.size(); ++i) EXPECT_EQ(powers[i], std::exp2(integers[i]));
    const std::vector<float> ends = exp2_of({-0.0F, -126.0F, -150.0F, -1e5F, -3e38F, -kInfinity});
    EXPECT_EQ(ends[0], 1.0F);
    for (std::size_t i = 1; i < ends.size(); ++i) EXPECT_EQ(ends[i], 0.0F) << i;
    EXPECT_TRUE(std::isnan(exp2_of({kNan})[0]));
  });
}

TEST(MatrixConversionTest, LoadsEveryBitPattern) {
  std::vector<std::uint16_t> bits(65536 + 5);  // not a multiple of any vector
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  with_every_instruction_set([&] {
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
      std::vector<float> values(bits.size());
      load_matrix(bits.data(), dtype, 0, 0, 1, size(values), values.data());
      int wrong = 0;
      for (std::size_t i = 0; i < bits.size(); ++i) {
        const float want = dtype == Dtype::f16 ? f16_to_float(bits[i]) : bf16_to_float(bits[i]);
        const bool same = std::isnan(want) ? std::isnan(values[i])
                                           : std::bit_cast<std::uint32_t>(want) ==
                                                 std::bit_cast<std::uint32_t>(values[i]);
        wrong += same ? 0 : 1;
      }
      EXPECT_EQ(wrong, 0) << to_string(dtype);
    }
  });
}

TEST(MatrixConversionTest, StoresToNearestEven) {
  std::vector<float> values = {0.0F,     -0.0F,    kInfinity, -kInfinity, 65504.0F, 65519.9F,
                               65520.0F, 0x1p-25F, 3e38F,     0x1p-24F,   -1e-40F,  0x1.8p-24F};
  std::mt19937 generator = seeded(1);
  for (int i = 0; i < 20000; ++i) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(generator()));
    if (!std::isnan(value)) values.push_back(value);
    // Near the range of f16, and ties of both types.
    const auto exponent = static_cast<int>(generator() % 42) - 26;
    const auto fraction = static_cast<float>(generator() % 8192) + 4096.0F;
    values.push_back(std::ldexp(fraction, exponent - 12));
    values.push_back(
        std::bit_cast<float>((static_cast<std::uint32_t>(generator()) & 0xffff0000U) | 0x8000U));
    if (std::isnan(values.back())) values.pop_back();
  }
  with_every_instruction_set([&] {
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
      std::vector<std::uint16_t> bits(values.size());
      store_matrix(values.data(), 1, size(values), bits.data(), dtype, 0, 0);
      int wrong = 0;
      for (std::size_t i = 0; i < bits.size(); ++i) {
        const auto want = dtype == Dtype::f16 ? float_to_f16(values[i]) : float_to_bf16(values[i]);
        if (bits[i] != want && ++wrong < 4) {
          ADD_FAILURE() << to_string(dtype) << " of " << values[i] << ": got " << bits[i]
                        << ", want " << want;
        }
      }
      const std::vector<float> nans(20, kNan);
      store_matrix(nans.data(), 1, 20, bits.data(), dtype, 0, 0);
      for (std::int64_t i = 0; i < 20; ++i) {
        EXPECT_TRUE(std::isnan(load_element(bits.data(), dtype, i)));
      }
    }
  });
}

TEST(MatrixConversionTest, KeepsToItsRowsAndColumns) {
  constexpr std::uint16_t kUntouched = 0xabcd;
  std::vector<float> values(57);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  with_every_instruction_set([&] {
    std::vector<std::uint16_t> bits(80, kUntouched);
    store_matrix(values.data(), 3, 19, bits.data(), Dtype::bf16, 5, 25);
    std::vector<float> back(values.size());
    load_matrix(bits.data(), Dtype::bf16, 5, 25, 3, 19, back.data());
    EXPECT_EQ(back, values);
    for (std::size_t i = 0; i < bits.size(); ++i) {
      const bool inside = i >= 5 && (i - 5) % 25 < 19;
      EXPECT_EQ(bits[i] == kUntouched, !inside) << i;
    }
  });
}

TEST(SoftmaxRowTest, NormalisesWhatIsVisibleAndZeroesTheRest) {
  with_every_instruction_set([] {
    for (const std::int64_t visible : {1, 2, 15, 16, 17, 63, 64, 65, 100}) {
      std::vector<float> row(101, kNan);  // what is hidden must not matter
      double sum = 0.0;
      for (std::int64_t i = 0; i < visible; ++i) {
        row[static_cast<std::size_t>(i)] = static_cast<float>(i % 7) - 900.0F;
        sum += std::exp(static_cast<double>(i % 7));
      }
      const float lse = softmax_row(row.data(), Dtype::f32, 0, visible, 100, nullptr);
      EXPECT_NEAR(static_cast<double>(lse), std::log(sum) - 900.0, 1e-4);
      for (std::int64_t i = 0; i < 100; ++i) {
        const double want = i < visible ? std::exp(static_cast<double>(i % 7)) / sum : 0.0;
        EXPECT_NEAR(static_cast<double>(row[static_cast<std::size_t>(i)]), want, 1e-6 * want) << i;
      }
      EXPECT_TRUE(std::isnan(row[100]));
    }
  });
}

TEST(SoftmaxRowTest, HasNoVisibleScore) {
  std::vector<std::uint16_t> row(9, 0x7e00);
  EXPECT_EQ(softmax_row(row.data(), Dtype::f16, 1, 0, 7, nullptr), -kInfinity);
  EXPECT_EQ(row, (std::vector<std::uint16_t>{0x7e00, 0, 0, 0, 0, 0, 0, 0, 0x7e00}));
}

TEST(SoftmaxRowTest, RoundsWeightsOnce) {
  std::vector<std::uint16_t> row(3, float_to_bf16(5.0F));
  std::vector<float> scratch(3);
  softmax_row(row.data(), Dtype::bf16, 0, 3, 3, scratch.data());
  for (const std::uint16_t weight : row) EXPECT_EQ(weight, float_to_bf16(1.0F / 3.0F));
}

}  // namespace
}  // namespace flashbench
