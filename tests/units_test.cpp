#include "units.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace flashbench {
namespace {

TEST(Units, Seconds) {
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_seconds(417e-9), "417 ns");
  EXPECT_EQ(format_seconds(1.234e-6), "1.23 us");
  EXPECT_EQ(format_seconds(12.34e-6), "12.3 us");
  EXPECT_EQ(format_seconds(9.876e-3), "9.88 ms");
  EXPECT_EQ(format_seconds(999.6e-6), "1.00 ms");
  EXPECT_EQ(format_seconds(0.99949), "999 ms");
  EXPECT_EQ(format_seconds(0.9996), "1.00 s");
  EXPECT_EQ(format_seconds(2.5), "2.50 s");
  EXPECT_EQ(format_seconds(12345), "12345 s");
  EXPECT_EQ(format_seconds(-1), "-");
  EXPECT_EQ(format_seconds(std::nan("")), "-");
  EXPECT_EQ(format_seconds(std::numeric_limits<double>::infinity()), "-");
}

TEST(Units, Bytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(1000.0 * 1024 * 1024), "0.977 GiB");
  EXPECT_EQ(format_bytes(139.0 * 1024 * 1024 * 1024), "139 GiB");
  EXPECT_EQ(format_bytes(9223372036854775807.0), "8.00 EiB");
}

TEST(Units, Lengths) {
  EXPECT_EQ(format_length(512), "512");
  EXPECT_EQ(format_length(1000), "1000");
  EXPECT_EQ(format_length(1024), "1k");
  EXPECT_EQ(format_length(1536), "1536");
  EXPECT_EQ(format_length(131072), "128k");
  EXPECT_EQ(format_length(1048576), "1M");
  EXPECT_EQ(format_length(1572864), "1536k");
}

TEST(Units, Groups) {
  EXPECT_EQ(format_grouped(7), "7");
  EXPECT_EQ(format_grouped(256), "256");
  EXPECT_EQ(format_grouped(1000), "1 000");
  EXPECT_EQ(format_grouped(262144), "262 144");
  EXPECT_EQ(format_grouped(1234567890), "1 234 567 890");
  EXPECT_EQ(format_grouped(-123456), "-123 456");
  EXPECT_EQ(format_grouped(-123), "-123");
}

TEST(Units, Waits) {
  EXPECT_EQ(format_wait(0.2), "1 s");
  EXPECT_EQ(format_wait(59), "59 s");
  EXPECT_EQ(format_wait(60), "1 min 00 s");
  EXPECT_EQ(format_wait(125), "2 min 05 s");
  EXPECT_EQ(format_wait(3720), "1 h 02 min");
  EXPECT_EQ(format_wait(std::nan("")), "-");
}

TEST(Units, SignificantDigits) {
  EXPECT_EQ(format_significant(0), "0");
  EXPECT_EQ(format_significant(0.1), "0.100");
  EXPECT_EQ(format_significant(0.01234), "0.0123");
  EXPECT_EQ(format_significant(0.9994), "0.999");
  EXPECT_EQ(format_significant(0.9996), "1.00");
  EXPECT_EQ(format_significant(9.994), "9.99");
  EXPECT_EQ(format_significant(9.996), "10.0");
  EXPECT_EQ(format_significant(99.96), "100");
  EXPECT_EQ(format_significant(1230.4), "1230");
  EXPECT_EQ(format_significant(-2.345), "-2.35");
}

TEST(Units, WidthCountsCodePoints) {
  EXPECT_EQ(display_width("abc"), 3U);
  EXPECT_EQ(display_width("±0.5%"), 5U);
  EXPECT_EQ(display_width("⣀○"), 2U);
}

}  // namespace
}  // namespace flashbench
