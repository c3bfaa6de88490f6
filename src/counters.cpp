#include "counters.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

namespace flashbench {
namespace {

/// Everything that is asked for, but those operations alone that the dtype's products are made of:
/// each path of the tensor cores costs a pass of its own.
std::vector<Quantity> quantities(Dtype dtype) {
  std::vector<Quantity> wanted{Quantity::dram_read_bytes, Quantity::dram_write_bytes,
                               Quantity::l2_bytes,        Quantity::special_ops,
                               Quantity::tensor_active,   Quantity::duration_s};
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

/// Counts of one plan differ little (on an H200 by tens of kilobytes), and long executions cost.
int repeats_for(double seconds) {
  if (seconds < 10e-3) return 5;
  return seconds < 0.3 ? 3 : 1;
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

using Repeats = std::vector<const Counts*>;

Series series(const Repeats& repeats, Quantity quantity) {
  Series result;
  for (const Counts* counts : repeats) {
    const auto found = counts->find(quantity);
    if (found != counts->end()) result.add(found->second);
  }
  return result;
}

std::optional<double> mean(const Repeats& repeats, Quantity quantity) {
  const Series values = series(repeats, quantity);
  return values.count == 0 ? std::nullopt : std::optional(values.mean());
}

/// Written bytes of `with` over and above those of `without`, repeat by repeat.
Series added_writes(const Repeats& with, const Repeats& without) {
  Series result;
  for (std::size_t i = 0; i < with.size(); ++i) {
    const auto more = with[i]->find(Quantity::dram_write_bytes);
    const auto less = without[i]->find(Quantity::dram_write_bytes);
    if (more != with[i]->end() && less != without[i]->end())
      result.add(more->second - less->second);
  }
  return result;
}

/// `bare`: range { work }. `writes`: what the work added to the writes of a range that ends in an
/// eviction.
CounterFigures figures(const Repeats& bare, const Series& writes, const Series& eviction_writes) {
  CounterFigures result;
  const Series reads = series(bare, Quantity::dram_read_bytes);
  result.read_bytes = reads.mean();
  result.read_spread_bytes = reads.spread();
  result.write_bytes = std::max(0.0, writes.mean());
  result.write_spread_bytes = writes.spread();
  result.write_uncertainty_bytes = eviction_writes.spread();
  result.l2_bytes = mean(bare, Quantity::l2_bytes);
  result.tensor_bf16_ops = mean(bare, Quantity::tensor_bf16_ops);
  result.tensor_f16_ops = mean(bare, Quantity::tensor_f16_ops);
  result.tensor_tf32_ops = mean(bare, Quantity::tensor_tf32_ops);
  result.f32_ops = mean(bare, Quantity::f32_ops);
  result.special_ops = mean(bare, Quantity::special_ops);
  result.tensor_active = mean(bare, Quantity::tensor_active);
  result.duration_s = mean(bare, Quantity::duration_s);
  return result;
}

/// The ranges that are counted, told apart by what is counted in them, repeat by repeat.
class Schedule {
 public:
  Schedule(const Plan& plan, const Enqueue& flush, int repeats) : steps_(plan.steps.size()) {
    for (int repeat = 0; repeat < repeats; ++repeat) {
      add(eviction_, {flush, flush});
      for (std::size_t i = 0; i < steps_; ++i) {
        // A step finds the cache as its predecessors leave it, and what it leaves dirty is what the
        // plan up to it leaves dirty beyond the plan before it.
        add(bare_[i], {[&plan, flush, i](Stream stream) {
                         flush(stream);
                         run(plan, 0, i, stream);
                       },
                       [&plan, i](Stream stream) { run(plan, i, i + 1, stream); }});
        add(evicted_[i], {flush, [&plan, flush, i](Stream stream) {
                            run(plan, 0, i + 1, stream);
                            flush(stream);
                          }});
      }
      if (steps_ > 1) {
        add(whole_, {flush, [&plan](Stream stream) { plan.enqueue(stream); }});
      }
    }
  }

  const std::vector<CountedRange>& ranges() const { return ranges_; }

  PlanCounters counters(const std::vector<Counts>& counted) const {
    const auto of = [&](const std::vector<std::size_t>& indices) {
      Repeats repeats;
      for (const std::size_t index : indices) repeats.push_back(&counted.at(index));
      return repeats;
    };
    const Repeats eviction = of(eviction_);
    const Series eviction_writes = series(eviction, Quantity::dram_write_bytes);
    PlanCounters result;
    Repeats before = eviction;
    for (std::size_t i = 0; i < steps_; ++i) {
      const Repeats after = of(evicted_.at(i));
      result.steps.push_back(
          figures(of(bare_.at(i)), added_writes(after, before), eviction_writes));
      before = after;
    }
    if (steps_ == 1) {
      result.whole = result.steps.front();
      result.steps.clear();
    } else {
      result.whole = figures(of(whole_), added_writes(before, eviction), eviction_writes);
    }
    return result;
  }

 private:
  static void run(const Plan& plan, std::size_t first, std::size_t last, Stream stream) {
    for (std::size_t i = first; i < last; ++i) plan.steps[i].enqueue(stream);
  }

  void add(std::vector<std::size_t>& indices, CountedRange range) {
    indices.push_back(ranges_.size());
    ranges_.push_back(std::move(range));
  }

  std::size_t steps_;
  std::vector<CountedRange> ranges_;
  std::vector<std::size_t> eviction_;
  std::vector<std::size_t> whole_;
  std::map<std::size_t, std::vector<std::size_t>> bare_;     // by step
  std::map<std::size_t, std::vector<std::size_t>> evicted_;  // by the last step that runs
};

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
  const int repeats =
      repeats_for(seconds_of(device_, [&plan](Stream stream) { plan.enqueue(stream); }));
  const Schedule schedule(plan, [this](Stream) { device_.flush_cache(); }, repeats);
  const RangeProfiler::Result counted = profiler_->profile(quantities(dtype), schedule.ranges());
  PlanCounters result = schedule.counters(counted.ranges);
  result.repeats = repeats;
  result.passes = counted.passes;
  return result;
}

}  // namespace flashbench
