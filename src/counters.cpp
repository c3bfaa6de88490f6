#include "counters.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace flashbench {
namespace {

/// Everything that is asked for, but those operations alone that the dtype's products are made of:
/// each path of the tensor cores costs a pass of its own.
std::vector<Quantity> quantities(Dtype dtype) {
  std::vector<Quantity> wanted{Quantity::dram_read_bytes,    Quantity::dram_write_bytes,
                               Quantity::l2_bytes,           Quantity::special_ops,
                               Quantity::tensor_busy_cycles, Quantity::sm_cycles,
                               Quantity::duration_s};
  switch (dtype) {
    case Dtype::bf16: wanted.push_back(Quantity::tensor_bf16_ops); break;
    case Dtype::f16: wanted.push_back(Quantity::tensor_f16_ops); break;
    case Dtype::f32:
      wanted.push_back(Quantity::f32_ops);
      wanted.push_back(Quantity::tensor_tf32_ops);
      break;
  }
  return wanted;
}

/// Short executions are noisy and cheap, long ones neither.
int repeats_for(double seconds) {
  if (seconds < 2e-3) return 10;
  if (seconds < 0.1) return 5;
  return seconds < 0.5 ? 3 : 1;
}

double seconds_of(Device& device, const Enqueue& work) {
  device.synchronize();
  const auto begin = std::chrono::steady_clock::now();
  work(device.stream());
  device.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// One quantity over the repeats.
struct Series {
  double sum = 0;
  double least = 0;
  double most = 0;
  int count = 0;

  void add(double value) {
    least = count == 0 ? value : std::min(least, value);
    most = count == 0 ? value : std::max(most, value);
    sum += value;
    ++count;
  }
  double mean() const { return count == 0 ? 0 : sum / count; }
  double spread() const { return most - least; }
};

Series series(const std::vector<const Counts*>& repeats, Quantity quantity) {
  Series result;
  for (const Counts* counts : repeats) {
    const auto found = counts->find(quantity);
    if (found != counts->end()) result.add(found->second);
  }
  return result;
}

std::optional<double> mean(const std::vector<const Counts*>& repeats, Quantity quantity) {
  const Series values = series(repeats, quantity);
  return values.count == 0 ? std::nullopt : std::optional(values.mean());
}

/// The ranges of one execution, repeat by repeat.
struct Tally {
  std::vector<const Counts*> bare;     ///< range { work }
  std::vector<const Counts*> evicted;  ///< range { work, eviction }
};

CounterFigures figures(const Tally& tally, const Series& eviction_writes) {
  CounterFigures result;
  const Series reads = series(tally.bare, Quantity::dram_read_bytes);
  const Series writes = series(tally.evicted, Quantity::dram_write_bytes);
  result.read_bytes = reads.mean();
  result.read_spread_bytes = reads.spread();
  result.write_bytes = std::max(0.0, writes.mean() - eviction_writes.mean());
  result.write_spread_bytes = writes.spread();
  result.write_uncertainty_bytes = eviction_writes.spread();
  result.l2_bytes = mean(tally.bare, Quantity::l2_bytes);
  result.tensor_bf16_ops = mean(tally.bare, Quantity::tensor_bf16_ops);
  result.tensor_f16_ops = mean(tally.bare, Quantity::tensor_f16_ops);
  result.tensor_tf32_ops = mean(tally.bare, Quantity::tensor_tf32_ops);
  result.f32_ops = mean(tally.bare, Quantity::f32_ops);
  result.special_ops = mean(tally.bare, Quantity::special_ops);
  const auto busy = mean(tally.bare, Quantity::tensor_busy_cycles);
  const auto elapsed = mean(tally.bare, Quantity::sm_cycles);
  if (busy && elapsed && *elapsed > 0) result.tensor_active = *busy / *elapsed;
  result.duration_s = mean(tally.bare, Quantity::duration_s);
  return result;
}

}  // namespace

bool Counters::available() {
  if (!tried_) {
    tried_ = true;
    if (!open_) {
      reason_ = "this device has no counters of memory traffic that flashbench can read";
    } else {
      try {
        profiler_ = open_(device_);
      } catch (const CountersUnavailable& error) {
        reason_ = error.what();
      }
    }
  }
  return profiler_ != nullptr;
}

std::optional<PlanCounters> Counters::measure(const Plan& plan, Dtype dtype) {
  if (!available()) return std::nullopt;
  try {
    return count(plan, dtype);
  } catch (const CountersUnavailable& error) {
    reason_ = error.what();
    profiler_.reset();
    return std::nullopt;
  }
}

PlanCounters Counters::count(const Plan& plan, Dtype dtype) {
  // What is counted: the steps one by one, where there are several, then the whole.
  std::vector<Enqueue> works;
  if (plan.steps.size() > 1) {
    for (const Step& step : plan.steps) works.push_back(step.enqueue);
  }
  const Enqueue whole = [&plan](Stream stream) { plan.enqueue(stream); };
  works.push_back(whole);

  PlanCounters result;
  result.repeats = repeats_for(seconds_of(device_, whole));
  const auto repeats = static_cast<std::size_t>(result.repeats);
  const Enqueue flush = [this](Stream) { device_.flush_cache(); };
  std::vector<CountedRange> ranges;
  for (std::size_t repeat = 0; repeat < repeats; ++repeat) {
    ranges.push_back({flush, flush});
    for (const Enqueue& work : works) {
      ranges.push_back({flush, work});
      ranges.push_back({flush, [&work, &flush](Stream stream) {
                          work(stream);
                          flush(stream);
                        }});
    }
  }
  const RangeProfiler::Result counted = profiler_->profile(quantities(dtype), ranges);
  result.passes = counted.passes;

  std::vector<const Counts*> evictions;
  std::vector<Tally> tallies(works.size());
  const std::size_t stride = 1 + 2 * works.size();
  for (std::size_t repeat = 0; repeat < repeats; ++repeat) {
    const Counts* first = counted.ranges.data() + repeat * stride;
    evictions.push_back(first);
    for (std::size_t i = 0; i < works.size(); ++i) {
      tallies[i].bare.push_back(first + 1 + 2 * i);
      tallies[i].evicted.push_back(first + 2 + 2 * i);
    }
  }
  const Series eviction_writes = series(evictions, Quantity::dram_write_bytes);
  for (std::size_t i = 0; i + 1 < works.size(); ++i) {
    result.steps.push_back(figures(tallies[i], eviction_writes));
  }
  result.whole = figures(tallies.back(), eviction_writes);
  return result;
}

}  // namespace flashbench
