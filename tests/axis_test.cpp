#include "axis.h"

#include <gmock/gmock.h>

#include <string>

#include "error.h"

namespace flashbench {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string message_of(const std::string& text) {
  try {
    parse_axis("--n", text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Axis, Lists) {
  EXPECT_THAT(parse_axis("--n", "1024"), ElementsAre(1024));
  EXPECT_THAT(parse_axis("--n", "4096,1,33"), ElementsAre(4096, 1, 33));
}

TEST(Axis, SuffixesArePowersOf1024) {
  EXPECT_THAT(parse_axis("--n", "1k,128k,1M"), ElementsAre(1024, 131072, 1048576));
}

TEST(Axis, RangesDoubleAndIncludeTheEnd) {
  EXPECT_THAT(parse_axis("--n", "512..4096"), ElementsAre(512, 1024, 2048, 4096));
  EXPECT_THAT(parse_axis("--n", "512..4095"), ElementsAre(512, 1024, 2048));
  EXPECT_THAT(parse_axis("--n", "7..7"), ElementsAre(7));
  EXPECT_THAT(parse_axis("--n", "1k..4k"), ElementsAre(1024, 2048, 4096));
}

TEST(Axis, RangesWithFactorAndStep) {
  EXPECT_THAT(parse_axis("--n", "512..65536*4"), ElementsAre(512, 2048, 8192, 32768));
  EXPECT_THAT(parse_axis("--n", "512..2048+512"), ElementsAre(512, 1024, 1536, 2048));
  EXPECT_THAT(parse_axis("--n", "1k..4k+1k"), ElementsAre(1024, 2048, 3072, 4096));
  EXPECT_THAT(parse_axis("--n", "5..9+1"), ElementsAre(5, 6, 7, 8, 9));
}

TEST(Axis, EachValueOnceInOrder) {
  EXPECT_THAT(parse_axis("--n", "4,1..8,2,16"), ElementsAre(4, 1, 2, 8, 16));
}

TEST(Axis, RangeEndsBeforeOverflow) {
  EXPECT_THAT(parse_axis("--n", "4611686018427387904..9223372036854775807"),
              ElementsAre(4611686018427387904));
  EXPECT_THAT(parse_axis("--n", "9223372036854775806..9223372036854775807+1"),
              ElementsAre(9223372036854775806, 9223372036854775807));
}

TEST(Axis, MalformedTokensAreNamedWithWhatIsAccepted) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "''"},
      {",", "''"},
      {"512,", "''"},
      {"512,,1024", "''"},
      {"abc", "'abc'"},
      {"0", "'0' is zero"},
      {"0k", "'0k' is zero"},
      {"-5", "'-5' has a sign"},
      {"+5", "'+5' has a sign"},
      {" 512", "' 512'"},
      {"512 ", "'512 '"},
      {"512x", "'512x'"},
      {"1e3", "'1e3'"},
      {"1.5", "'1.5'"},
      {"0x10", "'0x10'"},
      {"k", "'k'"},
      {"1K", "'1K'"},
      {"1G", "'1G'"},
      {"1kk", "'1kk'"},
      {"9223372036854775808", "does not fit 64 bits"},
      {"9007199254740993k", "does not fit 64 bits"},
      {"512,10..5", "'10..5' is a descending range"},
      {"1..", "'1..'"},
      {"..8", "'..8'"},
      {"..", "'..'"},
      {"1...8", "'1...8'"},
      {"1..8..16", "'1..8..16'"},
      {"1..8*", "'1..8*'"},
      {"1..8*0", "'1..8*0'"},
      {"1..8*1", "factor of 1"},
      {"1..8+0", "'1..8+0'"},
      {"1..8*2+3", "'1..8*2+3'"},
      {"1..8-1", "'1..8-1'"},
      {"-1..8", "'-1..8'"},
      {"1..-8", "'1..-8'"},
      {"1..8x", "'1..8x'"},
      {"\x01", "'\\x01'"},
      {"1\n", "'1\\x0a'"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_THAT(message_of(text), AllOf(HasSubstr("--n: "), HasSubstr(expected),
                                        HasSubstr("accepted: a list of positive integers")))
        << "for '" << text << "'";
  }
}

TEST(Axis, TooManyValues) {
  EXPECT_THAT(message_of("1..9223372036854775807+1"), HasSubstr("more than 10000 values"));
}

TEST(Axis, LongTokensAreCut) {
  const std::string message = message_of(std::string(5000, 'z'));
  EXPECT_THAT(message, HasSubstr("zzz..."));
  EXPECT_LT(message.size(), 400U);
}

TEST(Counts, OneNumber) {
  EXPECT_EQ(parse_count("--samples", "4k"), 4096);
  EXPECT_THROW(parse_count("--samples", "1,2"), UsageError);
  EXPECT_THROW(parse_count("--samples", "1..2"), UsageError);
  EXPECT_THROW(parse_count("--samples", "0"), UsageError);
}

TEST(Seeds, All64Bits) {
  EXPECT_EQ(parse_seed("--seed", "0"), 0U);
  EXPECT_EQ(parse_seed("--seed", "18446744073709551615"), 18446744073709551615U);
  for (const char* text : {"", "-1", "+1", "1k", "0x1", "18446744073709551616", " 1"}) {
    EXPECT_THROW(parse_seed("--seed", text), UsageError) << text;
  }
}

TEST(Seconds, PositiveAndFinite) {
  EXPECT_EQ(parse_positive("--time-limit", "0.5"), 0.5);
  EXPECT_EQ(parse_positive("--time-limit", "2"), 2.0);
  for (const char* text : {"", "0", "-1", "nan", "inf", "1s", "1,5", " 1", "1e999"}) {
    EXPECT_THROW(parse_positive("--time-limit", text), UsageError) << text;
  }
}

}  // namespace
}  // namespace flashbench
