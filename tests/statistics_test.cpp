#include "statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "error.h"

namespace flashbench {
namespace {

std::vector<double> normal_series(std::size_t count, double mean, double sigma,
                                  std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> draw(mean, sigma);
  std::vector<double> series(count);
  std::generate(series.begin(), series.end(), [&] { return draw(engine); });
  return series;
}

/// Feeds `series` until the rule stops: the reason and the number of values it took.
std::pair<std::optional<StopReason>, std::size_t> feed(const StoppingSettings& settings,
                                                       std::span<const double> series,
                                                       double seconds_each) {
  StoppingRule rule(settings);
  double elapsed = 0;
  for (double value : series) {
    rule.add(value);
    elapsed += seconds_each;
    if (const auto reason = rule.verdict(elapsed)) return {reason, rule.values().size()};
  }
  return {std::nullopt, series.size()};
}

TEST(Median, OddEvenAndUnsorted) {
  EXPECT_EQ(median(std::vector{3.0, 1.0, 2.0}), 2.0);
  EXPECT_EQ(median(std::vector{4.0, 1.0, 3.0, 2.0}), 2.5);
  EXPECT_EQ(median(std::vector{7.0}), 7.0);
  EXPECT_THROW(median({}), Error);
}

TEST(MedianInterval, KnownRanks) {
  // Tabulated ranks of the 95 % interval: n = 10 gives (2, 9) with 0.9785, n = 20 gives (6, 15)
  // with 0.9586, n = 100 gives (40, 61) with 0.9648.
  for (const auto& [n, low, high, coverage] :
       {std::tuple{10, 2, 9, 0.97852}, {20, 6, 15, 0.95861}, {100, 40, 61, 0.96480}}) {
    std::vector<double> series(static_cast<std::size_t>(n));
    for (int i = 0; i < n; ++i) series[static_cast<std::size_t>(i)] = n - i;
    const Interval interval = median_interval(series);
    EXPECT_EQ(interval.low, low) << n;
    EXPECT_EQ(interval.high, high) << n;
    EXPECT_NEAR(interval.coverage, coverage, 1e-5) << n;
  }
}

TEST(MedianInterval, ShortSeriesSayWhatTheyCover) {
  const Interval three = median_interval(std::vector{2.0, 1.0, 3.0});
  EXPECT_EQ(three.low, 1);
  EXPECT_EQ(three.high, 3);
  EXPECT_DOUBLE_EQ(three.coverage, 0.75);
  EXPECT_DOUBLE_EQ(median_interval(std::vector{5.0}).coverage, 0);
  EXPECT_GE(median_interval(std::vector{1.0, 2.0, 3.0, 4.0, 5.0, 6.0}).coverage, 0.95);
}

TEST(MedianInterval, LongSeriesDoNotUnderflow) {
  std::vector<double> series(20000);
  for (std::size_t i = 0; i < series.size(); ++i) series[i] = static_cast<double>(i);
  const Interval interval = median_interval(series);
  // Normal approximation of the ranks: n/2 -+ 1.96 sqrt(n)/2.
  EXPECT_NEAR(interval.low, 10000 - 138.6, 2);
  EXPECT_NEAR(interval.high, 9999 + 138.6, 2);
  EXPECT_NEAR(interval.coverage, 0.9508, 1e-3);
}

TEST(MedianInterval, CoversAsOftenAsItSays) {
  int covered = 0;
  constexpr int kTrials = 2000;
  for (int trial = 0; trial < kTrials; ++trial) {
    const auto series = normal_series(25, 0, 1, static_cast<std::uint64_t>(trial));
    const Interval interval = median_interval(series);
    covered += interval.low <= 0 && 0 <= interval.high;
  }
  EXPECT_NEAR(covered / double{kTrials}, median_interval(normal_series(25, 0, 1, 1)).coverage,
              0.015);
}

TEST(PairedRatio, DriftCancelsInPairs) {
  std::vector<double> a;
  std::vector<double> b;
  for (int i = 0; i < 40; ++i) {
    const double drift = 1 + 0.05 * i;
    a.push_back(3 * drift);
    b.push_back(2 * drift);
  }
  const PairedRatio ratio = paired_ratio(a, b);
  EXPECT_NEAR(ratio.ratio, 1.5, 1e-12);
  EXPECT_NEAR(ratio.interval.high - ratio.interval.low, 0, 1e-12);
}

TEST(PairedRatio, CutsTheLongerAndRefusesNonsense) {
  EXPECT_EQ(paired_ratio(std::vector{2.0, 4.0, 100.0}, std::vector{1.0, 2.0}).ratio, 2);
  EXPECT_THROW(paired_ratio({}, std::vector{1.0}), Error);
  EXPECT_THROW(paired_ratio(std::vector{1.0}, std::vector{0.0}), Error);
}

TEST(StoppingRule, NormalSeriesStopsOnPrecision) {
  const StoppingSettings settings{0.005, 10, 5000, 1e9};
  const auto series = normal_series(5000, 1, 0.02, 7);
  const auto [reason, count] = feed(settings, series, 0.001);
  EXPECT_EQ(reason, StopReason::precision);
  // Half-width of a normal median's interval: 1.96 * 1.2533 sigma / sqrt(n) = 0.005 at n = 97.
  EXPECT_GT(count, 40U);
  EXPECT_LT(count, 250U);
  const double found = median(std::span(series).first(count));
  EXPECT_NEAR(found, 1, 0.01);
}

TEST(StoppingRule, QuietSeriesStillTakesTheLeastSamples) {
  const StoppingSettings settings{0.005, 25, 5000, 1e9};
  const auto [reason, count] = feed(settings, normal_series(100, 1, 1e-5, 3), 0.001);
  EXPECT_EQ(reason, StopReason::precision);
  EXPECT_EQ(count, 25U);
}

TEST(StoppingRule, BimodalSeriesIsNotPreciseUntilOneModeHoldsTheMedian) {
  // Two modes 10 % apart, half and half: the interval reaches from one to the other.
  std::vector<double> even;
  for (int i = 0; i < 400; ++i) even.push_back(i % 2 == 0 ? 1.0 : 1.1);
  EXPECT_EQ(feed({0.005, 10, 400, 1e9}, even, 0.001),
            (std::pair{std::optional(StopReason::samples), std::size_t{400}}));
  // Four in five in one mode: the median is that mode and known soon.
  std::vector<double> uneven;
  for (int i = 0; i < 400; ++i) uneven.push_back(i % 5 == 0 ? 1.1 : 1.0);
  const auto [reason, count] = feed({0.005, 10, 400, 1e9}, uneven, 0.001);
  EXPECT_EQ(reason, StopReason::precision);
  EXPECT_LT(count, 40U);
}

TEST(StoppingRule, DriftingSeriesDoesNotPassForPrecise) {
  // Steps: long runs at one value, so the interval alone collapses, then at another.
  std::vector<double> steps;
  for (int i = 0; i < 20; ++i) steps.insert(steps.end(), 3, 1 + 0.03 * i);
  EXPECT_EQ(feed({0.005, 6, 60, 1e9}, steps, 0.001).first, StopReason::samples);
  // A slow ramp whose interval alone would pass (0.95 to 1.05 over 4000 values is +-0.16 %).
  std::vector<double> ramp;
  for (int i = 0; i < 4000; ++i) ramp.push_back(0.95 + 0.1 * i / 4000);
  StoppingRule rule({0.005, 10, 4000, 1e9});
  for (double value : ramp) rule.add(value);
  const Interval interval = median_interval(ramp);
  EXPECT_LT(interval.high - interval.low, 0.01);
  EXPECT_FALSE(rule.precise());
  EXPECT_EQ(rule.verdict(1), StopReason::samples);
}

TEST(StoppingRule, ConstantSeriesStopsAtOnceWhenLongEnough) {
  const std::vector<double> constant(50, 0.25);
  EXPECT_EQ(feed({0.005, 10, 50, 1e9}, constant, 0.001),
            (std::pair{std::optional(StopReason::precision), std::size_t{10}}));
  // An interval needs six values whatever the settings say.
  EXPECT_EQ(feed({0.005, 1, 50, 1e9}, constant, 0.001).second, 6U);
  // All zero: relative to a zero median nothing is wider than nothing.
  EXPECT_EQ(feed({0.005, 6, 50, 1e9}, std::vector<double>(50, 0.0), 0.001).second, 6U);
}

TEST(StoppingRule, OneSampleStopsOnTimeAlone) {
  StoppingRule rule({0.005, 1, 100, 2});
  EXPECT_EQ(rule.verdict(10), std::nullopt) << "nothing measured yet";
  rule.add(3);
  EXPECT_EQ(rule.verdict(1), std::nullopt);
  EXPECT_EQ(rule.verdict(2), StopReason::time_limit);
  EXPECT_FALSE(rule.precise());
}

TEST(StoppingRule, TimeLimitEndsANoisySeries) {
  const auto [reason, count] =
      feed({0.0001, 10, 100000, 0.5}, normal_series(2000, 1, 0.3, 11), 0.01);
  EXPECT_EQ(reason, StopReason::time_limit);
  EXPECT_EQ(count, 50U);
}

}  // namespace
}  // namespace flashbench
