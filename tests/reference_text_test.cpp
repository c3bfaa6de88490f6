#include "reference_text.h"

#include <gtest/gtest.h>

namespace flashbench {
namespace {

TEST(ReferenceText, RatesInTheirUnits) {
  EXPECT_EQ(format_rate(Reference::copy, 4.26e12), "4.26 TB/s");
  EXPECT_EQ(format_rate(Reference::read, 8.62e9), "8.62 GB/s");
  EXPECT_EQ(format_rate(Reference::matrix_bf16, 7.95e14), "795 TFLOP/s");
  EXPECT_EQ(format_rate(Reference::matrix_f32, 9.996e11), "1.00 TFLOP/s");
  EXPECT_EQ(format_rate(Reference::exp2, 3.9e12), "3.90 Texp/s");
  EXPECT_EQ(format_rate(Reference::copy, 12), "12.0 B/s");
}

TEST(ReferenceText, OneLine) {
  References references;
  EXPECT_EQ(describe(references), "");
  references.rates[Reference::copy].rate = 4e12;
  references.rates[Reference::matrix_f16].rate = 7.63e14;
  EXPECT_EQ(describe(references), "copy 4.00 TB/s, f16 matrix product 763 TFLOP/s");
}

}  // namespace
}  // namespace flashbench
