#include "sampling.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "error.h"

namespace flashbench {
namespace {

/// Runs nothing: a plan says how long it took, and the device writes down the order.
class FakeDevice : public Device {
 public:
  explicit FakeDevice(DeviceKind kind = DeviceKind::cpu) {
    info_.kind = kind;
    info_.max_clock_hz = 2e9;
  }
  const DeviceInfo& info() const override { return info_; }
  void* allocate(std::int64_t) override { return nullptr; }
  void deallocate(void*) noexcept override {}
  std::int64_t free_bytes() const override { return 0; }
  void download(void*, const void*, std::int64_t) override {}
  void upload(void*, const void*, std::int64_t) override {}
  void copy(void*, const void*, std::int64_t) override {}
  void fill_bytes(void*, std::uint8_t, std::int64_t) override {}
  Stream stream() const override { return nullptr; }
  void synchronize() override { ++synchronisations; }
  Sample time(const Enqueue& enqueue, CacheState cache) override {
    caches.push_back(cache);
    seconds = 0;
    timing_ = true;
    enqueue(nullptr);
    timing_ = false;
    return {seconds, clock_hz};
  }
  void flush_cache() override {}
  void launch_nothing() override { seconds = empty_s; }
  std::optional<DeviceState> state() const override {
    DeviceState state;
    state.power_w = 512;
    state.throttle_reasons = {"power_cap"};
    return state;
  }

  /// A plan that writes its letter down and reports the next of its times.
  Enqueue plan(char letter, std::function<double(std::size_t)> time_of) {
    return [this, letter, time_of, count = std::size_t{0}](Stream) mutable {
      (timing_ ? order : held).push_back(letter);
      if (timing_) seconds = time_of(count++);
    };
  }

  double seconds = 0;
  double empty_s = 1e-6;
  std::optional<double> clock_hz = 1.98e9;
  std::string order;
  std::string held;
  std::vector<CacheState> caches;
  int synchronisations = 0;

 private:
  DeviceInfo info_;
  bool timing_ = false;
};

SamplingSettings quick(std::int64_t min_samples, std::int64_t max_samples) {
  SamplingSettings settings;
  settings.stopping = {0.005, min_samples, max_samples, 60};
  return settings;
}

double alternating(std::size_t i) {
  return i % 2 == 0 ? 1e-3 : 2e-3;
}

TEST(SampleInterleaved, TurnsRotateAndEndTogether) {
  FakeDevice device;
  const std::atomic<bool> stop = false;
  const std::vector<Enqueue> plans{device.plan('a', [](std::size_t) { return 1e-3; }),
                                   device.plan('b', [](std::size_t) { return 2e-3; }),
                                   device.plan('c', alternating)};
  const auto stats = sample_interleaved(device, plans, quick(6, 7), stop);
  ASSERT_EQ(stats.size(), 3U);
  EXPECT_EQ(device.order, "abcbcacababcbcacababc");
  for (const TimeStats& one : stats) EXPECT_EQ(one.samples_s.size(), 7U);
  EXPECT_EQ(stats[0].stopped_by, "precision");
  EXPECT_EQ(stats[1].stopped_by, "precision");
  EXPECT_EQ(stats[2].stopped_by, "samples");
  EXPECT_EQ(stats[1].median_s, 2e-3);
  EXPECT_EQ(stats[2].min_s, 1e-3);
  EXPECT_EQ(stats[2].max_s, 2e-3);
  EXPECT_EQ(stats[0].empty_launch_s, 1e-6);
  EXPECT_FALSE(stats[0].too_short);
}

TEST(SampleInterleaved, StopsOnPrecisionWhenAllHaveIt) {
  FakeDevice device;
  const std::atomic<bool> stop = false;
  const std::vector<Enqueue> plans{
      device.plan('a', [](std::size_t) { return 1e-3; }),
      device.plan('b', [](std::size_t i) { return i < 4 ? 2e-3 : 1e-3; })};
  const auto stats = sample_interleaved(device, plans, quick(6, 1000), stop);
  EXPECT_EQ(stats[0].stopped_by, "precision");
  EXPECT_EQ(stats[1].stopped_by, "precision");
  EXPECT_EQ(stats[0].samples_s.size(), stats[1].samples_s.size());
  EXPECT_GT(stats[0].samples_s.size(), 6U) << "a waits for b";
  EXPECT_LT(stats[0].samples_s.size(), 100U);
}

TEST(SampleInterleaved, TimeLimitIsSharedAndOneRoundAlwaysRuns) {
  FakeDevice device;
  const std::atomic<bool> stop = false;
  SamplingSettings settings = quick(6, 1000000);
  settings.stopping.time_limit_s = 0;
  settings.cache = CacheState::warm;
  const std::vector<Enqueue> plans{device.plan('a', alternating), device.plan('b', alternating)};
  const auto stats = sample_interleaved(device, plans, settings, stop);
  EXPECT_EQ(device.order, "ab");
  EXPECT_EQ(stats[0].stopped_by, "time_limit");
  for (CacheState cache : device.caches) EXPECT_EQ(cache, CacheState::warm);
}

TEST(SampleInterleaved, StopFlagKeepsWhatWasMeasured) {
  FakeDevice device;
  std::atomic<bool> stop = false;
  const std::vector<Enqueue> plans{device.plan('a',
                                               [&stop](std::size_t i) {
                                                 if (i == 2) stop = true;
                                                 return 1e-3;
                                               }),
                                   device.plan('b', [](std::size_t) { return 1e-3; })};
  const auto stats = sample_interleaved(device, plans, quick(10, 100), stop);
  EXPECT_EQ(device.order, "abbaa");
  EXPECT_EQ(stats[0].stopped_by, "interrupted");
  EXPECT_EQ(stats[0].samples_s.size(), 3U);
  EXPECT_EQ(stats[1].samples_s.size(), 2U);

  const auto none = sample_interleaved(device, plans, quick(10, 100), stop);
  EXPECT_TRUE(none[0].samples_s.empty());
  EXPECT_EQ(none[0].stopped_by, "interrupted");
  EXPECT_EQ(time_ratio(none[0], none[1]), std::nullopt);
}

TEST(SampleInterleaved, MarksWhatAnEmptyLaunchHides) {
  FakeDevice device;
  device.empty_s = 2e-6;
  const std::atomic<bool> stop = false;
  const std::vector<Enqueue> plans{device.plan('a', [](std::size_t) { return 3e-6; }),
                                   device.plan('b', [](std::size_t) { return 5e-6; })};
  const auto stats = sample_interleaved(device, plans, quick(6, 10), stop);
  EXPECT_TRUE(stats[0].too_short);
  EXPECT_FALSE(stats[1].too_short);
}

TEST(SampleInterleaved, FlagsALowClock) {
  FakeDevice device(DeviceKind::cuda);
  const std::atomic<bool> stop = false;
  const std::vector<Enqueue> plans{device.plan('a', [](std::size_t) { return 1e-6; })};
  EXPECT_FALSE(sample_interleaved(device, plans, quick(6, 10), stop)[0].throttled);
  device.clock_hz = 1.7e9;
  const auto slow = sample_interleaved(device, plans, quick(6, 10), stop);
  EXPECT_TRUE(slow[0].throttled);
  EXPECT_EQ(slow[0].sm_clock_hz, 1.7e9);
  ASSERT_TRUE(slow[0].device_state) << "why it is low is on record";
  EXPECT_EQ(slow[0].device_state->power_w, 512);
  EXPECT_EQ(slow[0].device_state->throttle_reasons, (std::vector<std::string>{"power_cap"}));
  device.clock_hz = std::nullopt;
  const auto blind = sample_interleaved(device, plans, quick(6, 10), stop);
  EXPECT_FALSE(blind[0].throttled);
  EXPECT_EQ(blind[0].sm_clock_hz, std::nullopt);
}

TEST(SampleInterleaved, BurstRestsAndSustainedHolds) {
  FakeDevice device(DeviceKind::cuda);
  const std::atomic<bool> stop = false;
  SamplingSettings settings = quick(6, 6);
  settings.burst_duty = 0.25;
  const std::vector<Enqueue> plans{device.plan('a', [](std::size_t) { return 2e-3; })};
  const auto begin = std::chrono::steady_clock::now();
  sample_interleaved(device, plans, settings, stop);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took.count(), 6 * 3 * 2e-3) << "three times a sample's length after each";
  EXPECT_TRUE(device.held.empty());

  settings.load = Load::sustained;
  settings.hold_s = 0.02;
  settings.stopping.max_samples = 12;
  settings.stopping.precision = 0;
  device.order.clear();
  const std::vector<Enqueue> two{device.plan('a', alternating), device.plan('b', alternating)};
  const auto stats = sample_interleaved(device, two, settings, stop);
  EXPECT_EQ(device.order, "aaaaaaaaaabbbbbbbbbbbbaa") << "blocks of ten, then the last two";
  EXPECT_GT(device.held.size(), 4U);
  EXPECT_GT(device.synchronisations, 0);
  EXPECT_EQ(stats[0].stopped_by, "samples");
}

TEST(TimeRatio, PairsAndNoiseFloor) {
  FakeDevice device;
  const std::atomic<bool> stop = false;
  const std::vector<Enqueue> plans{
      device.plan('a', [](std::size_t i) { return 4e-3 + 1e-4 * static_cast<double>(i); }),
      device.plan('b', [](std::size_t i) { return 2e-3 + 5e-5 * static_cast<double>(i); })};
  const auto stats = sample_interleaved(device, plans, quick(6, 20), stop);
  const auto ratio = time_ratio(stats[0], stats[1]);
  ASSERT_TRUE(ratio);
  EXPECT_NEAR(ratio->ratio, 2, 1e-9);
  EXPECT_LE(ratio->low, ratio->ratio);
  EXPECT_GE(ratio->high, ratio->ratio);

  const auto same = measure_noise_floor(device, device.plan('a', [](std::size_t) { return 1e-3; }),
                                        quick(6, 20), stop);
  ASSERT_TRUE(same);
  EXPECT_TRUE(same->stable);
}

TEST(MeasureNoiseFloor, AnOrderEffectIsUnstable) {
  // Whoever runs second in a round is slower. The turns alternate, so the ratio's interval spans
  // both; only a difference between the two series themselves must be called unstable.
  FakeDevice device;
  const std::atomic<bool> stop = false;
  double next = 1e-3;
  const Enqueue swinging = [&](Stream) {
    device.seconds = next;
    next = next == 1e-3 ? 1.01e-3 : 1e-3;
  };
  SamplingSettings settings = quick(6, 40);
  settings.stopping.precision = 1e-6;
  EXPECT_TRUE(measure_noise_floor(device, swinging, settings, stop)->stable);

  // Every sample of the first series is 1 % quicker: samples 0, 3, 4, 7, 8, 11...
  int index = 0;
  const Enqueue biased = [&](Stream) {
    const int place = index++ % 4;
    device.seconds = place == 0 || place == 3 ? 1e-3 : 1.01e-3;
  };
  const auto floor = measure_noise_floor(device, biased, settings, stop);
  EXPECT_FALSE(floor->stable);
  EXPECT_LT(floor->ratio.high, 1);
}

TEST(SampleInterleaved, NoPlansNoStatsAndErrorsPass) {
  FakeDevice device;
  const std::atomic<bool> stop = false;
  EXPECT_TRUE(sample_interleaved(device, {}, quick(6, 10), stop).empty());
  const std::vector<Enqueue> lost{[](Stream) { throw DeviceLost("gone"); }};
  EXPECT_THROW(sample_interleaved(device, lost, quick(6, 10), stop), DeviceLost);
}

}  // namespace
}  // namespace flashbench
