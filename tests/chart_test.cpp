#include "chart.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "units.h"

namespace flashbench {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Squares against doubles: one line rises twice as fast.
Chart two_powers() {
  Chart chart;
  chart.title = "Two powers";
  chart.unit = ChartUnit::bytes;
  ChartSeries square{"square", "twice", {}, {}};
  ChartSeries line{"line", "", {}, {}};
  for (const double x : {1024., 2048., 4096., 8192., 16384., 32768., 65536.}) {
    square.points.push_back({x, x * x});
    line.points.push_back({x, 1024 * x});
  }
  chart.series = {square, line};
  return chart;
}

Style narrow() {
  return {.colour = false, .braille = false, .width = 50};
}

TEST(Chart, Ascii) {
  EXPECT_EQ("\n" + draw(two_powers(), narrow()), R"(
Two powers
       |                                    .*
       |                                 ...
 1 GiB +                              .*..
       |                           ...
       |                         *.
       |                      ...
       |                   ...
       |                ..*             .....o
32 MiB +             ...          .....o
       |           .*       .....o.
       |        ...    ...o.
       |    ..*. ...o..
       |  ....o..
 1 MiB +o...
       ++-----+-----+-----+------+-----+-----+
        1k    2k    4k    8k    16k   32k  64k  N
  * square  twice
  o line
)");
}

TEST(Chart, NothingToDraw) {
  Chart chart;
  EXPECT_THAT(draw(chart, narrow()), IsEmpty());
  chart.series.push_back({"zero", "", {{1024, 0}, {-1, 5}}, {}});
  chart.series.push_back({"odd", "", {{1024, std::nan("")}, {2048, HUGE_VAL}}, {}});
  EXPECT_THAT(draw(chart, narrow()), IsEmpty());
}

TEST(Chart, OnePointOrOneValueIsEnough) {
  Chart chart;
  chart.series.push_back({"one", "", {{1024, 1e-3}}, {}});
  EXPECT_THAT(draw(chart, narrow()), AllOf(HasSubstr("*"), HasSubstr("1k"), HasSubstr("1 ms")));
  chart.series[0].points = {{1024, 3e-3}, {2048, 3e-3}};
  EXPECT_THAT(draw(chart, narrow()), AllOf(HasSubstr("2 ms"), HasSubstr("5 ms")));
  chart.series[0].points = {{1024, 1e-3}, {2048, 1e-1}};
  EXPECT_THAT(draw(chart, narrow()), AllOf(HasSubstr("1 ms"), HasSubstr("10 ms"),
                                           HasSubstr("100 ms"), Not(HasSubstr("20 ms"))));
}

TEST(Chart, ARoofIsDrawnUnderMarkersThatAreNotJoined) {
  Chart chart;
  chart.x_unit = ChartUnit::flops_per_byte;
  chart.unit = ChartUnit::flops_per_s;
  chart.joined = false;
  chart.roof = {{10, 1e13}, {100, 1e14}, {1000, 1e14}};
  chart.roof_name = "what there is";
  EXPECT_THAT(draw(chart, narrow()), IsEmpty()) << "a roof over nothing";
  chart.series.push_back({"one", "", {{100, 1e14}, {1000, 2e13}}, {}});
  EXPECT_EQ(draw(chart, narrow()), R"(
100 TFLOP/s +               *..............
            |              .
            |            ..
            |           .
 50 TFLOP/s +          .
            |         .
            |        .
            |      ..
            |     .
 20 TFLOP/s +     .                       *
            |    .
            |  ..
            | .
 10 TFLOP/s +.
            ++--------------+-------------+
             10            100         1000  op/B
  * one
  . what there is
)");
}

TEST(Chart, LinesKeepTheWidth) {
  for (const bool braille : {false, true}) {
    for (const int width : {40, 50, 80, 100}) {
      const Style style{.colour = false, .braille = braille, .width = width};
      for (const std::string& line : lines_of(draw(two_powers(), style))) {
        EXPECT_LE(display_width(line), static_cast<std::size_t>(width)) << line;
        EXPECT_FALSE(line.ends_with(' ')) << line;
      }
    }
  }
}

TEST(Chart, AsciiIsAscii) {
  Chart chart = two_powers();
  chart.series[0].unmet = {{131072, 1e11}};
  chart.limit = 1e9;
  chart.limit_name = "memory";
  for (const char c : draw(chart, narrow())) {
    ASSERT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7f)) << static_cast<int>(c);
  }
}

TEST(Chart, WhatDoesNotFitIsMarkedNotJoined) {
  Chart chart = two_powers();
  EXPECT_THAT(draw(chart, narrow()), Not(HasSubstr("x")));
  chart.series[0].unmet = {{131072, 1.7e10}};
  const std::string text = draw(chart, narrow());
  EXPECT_THAT(text, AllOf(HasSubstr("x would need"), HasSubstr("128k")));
  EXPECT_THAT(lines_of(text)[1], Not(HasSubstr(".")));
}

TEST(Chart, TheLimitIsARuleAndInTheLegend) {
  Chart chart = two_powers();
  chart.limit = 2.0e8;
  chart.limit_name = "memory of the device";
  EXPECT_THAT(draw(chart, narrow()),
              AllOf(HasSubstr("---"), HasSubstr("- memory of the device: 191 MiB")));
  chart.limit = 1e30;  // off the chart: in the legend alone
  const std::string text = draw(chart, narrow());
  for (std::size_t row = 1; row <= 14; ++row)
    EXPECT_THAT(lines_of(text)[row], Not(HasSubstr("---")));
}

TEST(Chart, ColourOnlyWhereAskedFor) {
  Style style = narrow();
  EXPECT_THAT(draw(two_powers(), style), Not(HasSubstr("\x1b")));
  style.colour = true;
  EXPECT_THAT(draw(two_powers(), style),
              AllOf(HasSubstr("\x1b[31m*\x1b[0m"), HasSubstr("\x1b[32mo\x1b[0m")));
}

TEST(Chart, BrailleDotsJoinTheMarkers) {
  const Style style{.colour = false, .braille = true, .width = 50};
  const std::string text = draw(two_powers(), style);
  EXPECT_THAT(text, AllOf(HasSubstr("●"), HasSubstr("○"), HasSubstr("┤")));
  std::size_t dots = 0;
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] == '\xe2' && (text[i + 1] & '\xfc') == '\xa0') ++dots;
  }
  EXPECT_GT(dots, 20U);
}

}  // namespace
}  // namespace flashbench
