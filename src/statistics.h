#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace flashbench {

/// Middle value, or the mean of the two middle ones. Throws Error on an empty series.
double median(std::span<const double> values);

/// An interval between two observed values, with the probability that it covers what it is for.
struct Interval {
  double low = 0;
  double high = 0;
  double coverage = 0;  ///< at least the confidence asked for, unless the series is too short
};

/// Confidence interval of the median by order statistics: no assumption but independence
/// (Hahn and Meeker, Statistical Intervals, 1991, section 5.2: the number of values below the
/// median is binomial). It is [x_(k), x_(n+1-k)] with the largest k whose coverage
/// 1 - 2 P(Bin(n, 1/2) < k) reaches `confidence`; under six values, where not even [min, max]
/// covers with 95 %, [min, max] and its own coverage. Throws Error on an empty series.
Interval median_interval(std::span<const double> values, double confidence = 0.95);

struct PairedRatio {
  double ratio = 0;  ///< median of the ratios of pairs
  Interval interval;
};

/// The ratio of two series whose i-th values were measured side by side, so that what slows both
/// cancels in each pair. The longer series is cut. Throws Error where there is no pair or a
/// denominator is not positive.
PairedRatio paired_ratio(std::span<const double> numerators, std::span<const double> denominators,
                         double confidence = 0.95);

enum class StopReason : std::uint8_t { precision, samples, time_limit, interrupted };
std::string_view to_string(StopReason reason);

struct StoppingSettings {
  double precision = 0.005;  ///< relative half-width of the median's 95 % interval
  std::int64_t min_samples = 10;
  std::int64_t max_samples = 1000;
  double time_limit_s = 2;
};

/// Decides when a growing series is known well enough. `precision` is reached when, with at least
/// min_samples (and never under six) values, the half-width of the median's 95 % interval is at
/// most precision * median, and the series is steady: the medians of its first and second half
/// differ by no more than 2 * precision * median. The second condition is there because a
/// drifting series has a narrow interval round a median that no longer holds.
class StoppingRule {
 public:
  explicit StoppingRule(const StoppingSettings& settings) : settings_(settings) {}

  void add(double value) { values_.push_back(value); }
  /// Why to stop now, or nothing. `elapsed_s`: since sampling began. Precision wins over the other
  /// reasons where several hold; a series without a single value never stops on precision or time.
  std::optional<StopReason> verdict(double elapsed_s) const;
  /// The precision condition alone.
  bool precise() const;

  const std::vector<double>& values() const { return values_; }

 private:
  StoppingSettings settings_;
  std::vector<double> values_;
};

}  // namespace flashbench
