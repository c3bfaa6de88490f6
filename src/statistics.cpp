#include "statistics.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "error.h"

namespace flashbench {
namespace {

/// Not [min, max] but an interval inside it exists from here on: 1 - 2 * 2^-6 > 0.95.
constexpr std::size_t kFewestForInterval = 6;

double median_of_sorted(std::span<const double> sorted) {
  const std::size_t n = sorted.size();
  return n % 2 == 1 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}

std::vector<double> sorted_copy(std::span<const double> values) {
  if (values.empty()) throw Error("a median needs at least one value");
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

Interval interval_of_sorted(std::span<const double> sorted, double confidence) {
  const std::size_t n = sorted.size();
  const double count = static_cast<double>(n);
  // tail = P(Bin(n, 1/2) < k); grows with k, from 2^-n at k = 1. Terms by logarithms: 2^-n itself
  // underflows from n = 1075 on.
  double tail = std::exp2(-count);
  Interval interval{sorted.front(), sorted.back(), 1 - 2 * tail};
  const double log_half = -count * std::numbers::ln2;
  for (std::size_t k = 2; 2 * k <= n; ++k) {
    const double chosen = static_cast<double>(k - 1);
    tail += std::exp(std::lgamma(count + 1) - std::lgamma(chosen + 1) -
                     std::lgamma(count - chosen + 1) + log_half);
    if (1 - 2 * tail < confidence) break;
    interval = {sorted[k - 1], sorted[n - k], 1 - 2 * tail};
  }
  return interval;
}

}  // namespace

double median(std::span<const double> values) {
  return median_of_sorted(sorted_copy(values));
}

Interval median_interval(std::span<const double> values, double confidence) {
  return interval_of_sorted(sorted_copy(values), confidence);
}

PairedRatio paired_ratio(std::span<const double> numerators, std::span<const double> denominators,
                         double confidence) {
  const std::size_t pairs = std::min(numerators.size(), denominators.size());
  if (pairs == 0) throw Error("a paired ratio needs at least one pair");
  std::vector<double> ratios;
  ratios.reserve(pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    if (!(denominators[i] > 0)) throw Error("a paired ratio needs positive denominators");
    ratios.push_back(numerators[i] / denominators[i]);
  }
  std::sort(ratios.begin(), ratios.end());
  return {median_of_sorted(ratios), interval_of_sorted(ratios, confidence)};
}

std::string_view to_string(StopReason reason) {
  switch (reason) {
    case StopReason::precision: return "precision";
    case StopReason::samples: return "samples";
    case StopReason::time_limit: return "time_limit";
    case StopReason::interrupted: return "interrupted";
  }
  return "?";
}

bool StoppingRule::precise() const {
  const std::size_t fewest =
      std::max(kFewestForInterval,
               static_cast<std::size_t>(std::max<std::int64_t>(settings_.min_samples, 0)));
  if (values_.size() < fewest) return false;
  const std::vector<double> sorted = sorted_copy(values_);
  const double middle = median_of_sorted(sorted);
  const Interval interval = interval_of_sorted(sorted, 0.95);
  const double tolerance = settings_.precision * std::abs(middle);
  if (0.5 * (interval.high - interval.low) > tolerance) return false;
  const std::span<const double> all(values_);
  const std::size_t half = values_.size() / 2;
  return std::abs(median(all.first(half)) - median(all.last(half))) <= 2 * tolerance;
}

std::optional<StopReason> StoppingRule::verdict(double elapsed_s) const {
  if (values_.empty()) return std::nullopt;
  if (precise()) return StopReason::precision;
  if (static_cast<std::int64_t>(values_.size()) >= settings_.max_samples) {
    return StopReason::samples;
  }
  if (elapsed_s >= settings_.time_limit_s) return StopReason::time_limit;
  return std::nullopt;
}

}  // namespace flashbench
