#include "sampling.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace flashbench {
namespace {

constexpr int kEmptyLaunches = 11;
/// Under this multiple of an empty launch a time says nothing about the work.
constexpr double kTooShort = 2;
/// Sustained: samples of one plan before the next one's turn.
constexpr std::int64_t kBlockSamples = 10;
/// Below this fraction of the device's maximum a clock counts as throttled.
constexpr double kThrottled = 0.97;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Sampler {
 public:
  Sampler(Device& device, std::span<const Enqueue> plans, const SamplingSettings& settings,
          const std::atomic<bool>& stop)
      : device_(device),
        plans_(plans),
        settings_(settings),
        stop_(stop),
        rules_(plans.size(), StoppingRule(settings.stopping)),
        clocks_(plans.size()) {}

  std::vector<TimeStats> run() {
    if (plans_.empty()) return {};
    empty_s_ = empty_launch();
    start_ = Clock::now();
    const double limit_s = settings_.stopping.time_limit_s * static_cast<double>(plans_.size());
    StopReason reason = StopReason::interrupted;
    for (std::size_t round = 0; !stop_; ++round) {
      for (std::size_t i = 0; i < plans_.size() && !stop_; ++i) turn((round + i) % plans_.size());
      if (const auto why = finished(limit_s)) {
        reason = *why;
        break;
      }
    }
    const std::optional<DeviceState> state = device_.state();
    std::vector<TimeStats> stats;
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      stats.push_back(summary(i, reason));
      if (!stats.back().samples_s.empty()) stats.back().device_state = state;
    }
    return stats;
  }

 private:
  double empty_launch() {
    // On a CPU nothing is launched, and evicting a large cache for it takes longer than the rest.
    const CacheState cache =
        device_.info().kind == DeviceKind::cpu ? CacheState::warm : settings_.cache;
    std::vector<double> times;
    for (int i = 0; i < kEmptyLaunches && !stop_; ++i) {
      times.push_back(device_.time([this](Stream) { device_.launch_nothing(); }, cache).seconds);
    }
    return times.empty() ? 0 : median(times);
  }

  /// One plan's part of a round.
  void turn(std::size_t plan) {
    if (settings_.load == Load::sustained) {
      hold(plan);
      for (std::int64_t i = 0; i < kBlockSamples && !stop_ && !full(plan); ++i) sample(plan);
      return;
    }
    const double seconds = sample(plan);
    // Host memory and CPU clocks gain nothing from a rest.
    if (device_.info().kind == DeviceKind::cpu) return;
    const double rest = std::min(settings_.burst_rest_s, seconds * (1 / settings_.burst_duty - 1));
    std::this_thread::sleep_for(std::chrono::duration<double>(rest));
  }

  bool full(std::size_t plan) const {
    return static_cast<std::int64_t>(rules_[plan].values().size()) >=
           settings_.stopping.max_samples;
  }

  double sample(std::size_t plan) {
    const Sample sample = device_.time(plans_[plan], settings_.cache);
    rules_[plan].add(sample.seconds);
    if (sample.sm_clock_hz) clocks_[plan].push_back(*sample.sm_clock_hz);
    return sample.seconds;
  }

  void hold(std::size_t plan) {
    const Clock::time_point begin = Clock::now();
    std::int64_t launches = 1;  // grows until a batch takes a tenth of the hold
    while (!stop_ && seconds_since(begin) < settings_.hold_s) {
      const Clock::time_point batch = Clock::now();
      for (std::int64_t i = 0; i < launches; ++i) plans_[plan](device_.stream());
      device_.synchronize();
      if (seconds_since(batch) < 0.1 * settings_.hold_s) launches *= 2;
    }
  }

  /// Why the whole group ends now, or nothing. The plans are compared with each other, so they
  /// end together: on precision only when each has reached it.
  std::optional<StopReason> finished(double limit_s) const {
    if (stop_) return StopReason::interrupted;
    const auto precise = [](const StoppingRule& rule) { return rule.precise(); };
    if (std::all_of(rules_.begin(), rules_.end(), precise)) return StopReason::precision;
    if (full(0)) return StopReason::samples;
    if (seconds_since(start_) >= limit_s) return StopReason::time_limit;
    return std::nullopt;
  }

  TimeStats summary(std::size_t plan, StopReason reason) const {
    TimeStats stats;
    stats.samples_s = rules_[plan].values();
    stats.empty_launch_s = empty_s_;
    stats.stopped_by = to_string(rules_[plan].precise() ? StopReason::precision : reason);
    if (stats.samples_s.empty()) return stats;
    const auto [least, most] = std::minmax_element(stats.samples_s.begin(), stats.samples_s.end());
    const Interval interval = median_interval(stats.samples_s);
    stats.median_s = median(stats.samples_s);
    stats.min_s = *least;
    stats.max_s = *most;
    stats.ci_low_s = interval.low;
    stats.ci_high_s = interval.high;
    stats.too_short = stats.ci_low_s < kTooShort * empty_s_;
    if (!clocks_[plan].empty()) {
      stats.sm_clock_hz = median(clocks_[plan]);
      stats.throttled = *stats.sm_clock_hz < kThrottled * device_.info().max_clock_hz;
    }
    return stats;
  }

  Device& device_;
  std::span<const Enqueue> plans_;
  const SamplingSettings& settings_;
  const std::atomic<bool>& stop_;
  std::vector<StoppingRule> rules_;
  std::vector<std::vector<double>> clocks_;
  double empty_s_ = 0;
  Clock::time_point start_;
};

}  // namespace

SamplingSettings sampling_settings(const Settings& settings) {
  SamplingSettings sampling;
  sampling.cache = settings.cache;
  sampling.load = settings.load;
  sampling.stopping.precision = settings.precision;
  sampling.stopping.time_limit_s = settings.time_limit_s;
  if (settings.samples > 0) {
    sampling.stopping.max_samples = settings.samples;
    sampling.stopping.min_samples = std::min(sampling.stopping.min_samples, settings.samples);
  }
  return sampling;
}

std::vector<TimeStats> sample_interleaved(Device& device, std::span<const Enqueue> plans,
                                          const SamplingSettings& settings,
                                          const std::atomic<bool>& stop) {
  return Sampler(device, plans, settings, stop).run();
}

std::optional<Ratio> time_ratio(const TimeStats& numerator, const TimeStats& denominator,
                                double confidence) {
  if (numerator.samples_s.empty() || denominator.samples_s.empty()) return std::nullopt;
  const PairedRatio ratio = paired_ratio(numerator.samples_s, denominator.samples_s, confidence);
  return Ratio{ratio.ratio, ratio.interval.low, ratio.interval.high};
}

std::optional<NoiseFloor> measure_noise_floor(Device& device, const Enqueue& plan,
                                              const SamplingSettings& settings,
                                              const std::atomic<bool>& stop) {
  const std::vector<Enqueue> twice{plan, plan};
  const std::vector<TimeStats> stats = sample_interleaved(device, twice, settings, stop);
  const auto ratio = time_ratio(stats[0], stats[1], 0.99);
  if (!ratio) return std::nullopt;
  return NoiseFloor{*ratio, ratio->low <= 1 && 1 <= ratio->high};
}

}  // namespace flashbench
