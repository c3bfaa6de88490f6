#include "counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fakes.h"

namespace flashbench {
namespace {

using testing::Contains;
using testing::Not;

/// A device whose works change a model of its cache: reads count at once, written bytes stay dirty
/// until a flush writes them back.
class CacheModel {
 public:
  double read = 0;     ///< bytes read from memory since the start
  double written = 0;  ///< bytes that reached memory
  double dirty = 0;
  double operations = 0;
  double noise = 0;  ///< the most that a flush writes over and above
  int flushes = 0;
  std::string log;

  void work(double reads, double writes, double ops, char letter) {
    read += reads;
    // A quarter goes to memory at once, the rest lingers.
    written += 0.25 * writes;
    dirty += 0.75 * writes;
    operations += ops;
    log += letter;
  }
  void flush() {
    read += 1e6;
    written += dirty + 500 + noise * (flushes * flushes * 7 % 11) / 10;
    ++flushes;
    dirty = 0;
    log += '.';
  }
};

class ModelDevice : public FakeDevice {
 public:
  explicit ModelDevice(CacheModel& model) : model_(model) {}
  void flush_cache() override { model_.flush(); }

 private:
  CacheModel& model_;
};

/// Takes differences of the model over each range, in two passes.
class FakeProfiler : public RangeProfiler {
 public:
  explicit FakeProfiler(CacheModel& model) : model_(model) {}

  Result profile(std::span<const Quantity> quantities,
                 std::span<const CountedRange> ranges) override {
    if (fail_) throw CountersUnavailable("another profiler took them");
    asked.assign(quantities.begin(), quantities.end());
    Result result;
    result.passes = 2;
    for (int pass = 0; pass < result.passes; ++pass) {
      result.ranges.clear();
      for (const CountedRange& range : ranges) {
        if (range.prepare) range.prepare(nullptr);
        model_.log += '[';
        const CacheModel before = model_;
        range.body(nullptr);
        model_.log += ']';
        Counts counts;
        counts[Quantity::dram_read_bytes] = model_.read - before.read;
        counts[Quantity::dram_write_bytes] = model_.written - before.written;
        counts[Quantity::tensor_bf16_ops] = model_.operations - before.operations;
        counts[Quantity::tensor_active] = 0.25;
        counts[Quantity::duration_s] = 1e-3;
        result.ranges.push_back(counts);
        ++ranges_run;
      }
    }
    return result;
  }

  void fail_from_now_on() { fail_ = true; }
  std::vector<Quantity> asked;
  int ranges_run = 0;

 private:
  CacheModel& model_;
  bool fail_ = false;
};

class CountersTest : public testing::Test {
 protected:
  CacheModel model_;
  ModelDevice device_{model_};
  FakeProfiler* profiler_ = nullptr;
  int opened_ = 0;

  Counters counters() {
    return {device_, [this](Device&) {
              ++opened_;
              auto profiler = std::make_unique<FakeProfiler>(model_);
              profiler_ = profiler.get();
              return profiler;
            }};
  }

  Step step(char letter, double reads, double writes, double ops) {
    return {std::string(1, letter), [=, this](Stream) { model_.work(reads, writes, ops, letter); }};
  }
};

TEST_F(CountersTest, WrittenBytesIncludeWhatLingersAndNotTheEvictions) {
  Plan plan;
  plan.steps = {step('f', 7000, 4000, 64)};
  auto counters = this->counters();
  const auto counted = counters.measure(plan, Dtype::bf16);
  ASSERT_TRUE(counted);
  EXPECT_DOUBLE_EQ(counted->whole.read_bytes, 7000);
  EXPECT_DOUBLE_EQ(counted->whole.write_bytes, 4000);
  EXPECT_EQ(counted->whole.read_spread_bytes, 0);
  EXPECT_EQ(counted->whole.tensor_bf16_ops, 64);
  EXPECT_EQ(counted->whole.tensor_active, 0.25);
  EXPECT_DOUBLE_EQ(counted->whole.duration_s.value_or(0), 1e-3);
  EXPECT_EQ(counted->whole.l2_bytes, std::nullopt) << "not counted is not zero";
  EXPECT_TRUE(counted->steps.empty()) << "one step is the whole";
  EXPECT_EQ(counted->repeats, 5) << "a short one";
  EXPECT_EQ(counted->passes, 2);
}

TEST_F(CountersTest, StepsAreCountedOneByOneAndThePlanRunsWholeLast) {
  Plan plan;
  plan.steps = {step('q', 100, 5000, 10), step('s', 5000, 5000, 0), step('p', 5100, 50, 20)};
  auto counters = this->counters();
  const auto counted = counters.measure(plan, Dtype::bf16);
  ASSERT_TRUE(counted);
  ASSERT_EQ(counted->steps.size(), 3U);
  EXPECT_DOUBLE_EQ(counted->steps[0].read_bytes, 100);
  EXPECT_DOUBLE_EQ(counted->steps[0].write_bytes, 5000);
  EXPECT_DOUBLE_EQ(counted->steps[1].read_bytes, 5000);
  EXPECT_DOUBLE_EQ(counted->steps[2].write_bytes, 50);
  EXPECT_EQ(counted->steps[2].tensor_bf16_ops, 20);
  EXPECT_DOUBLE_EQ(counted->whole.read_bytes, 10200);
  EXPECT_DOUBLE_EQ(counted->whole.write_bytes, 10050);
  EXPECT_THAT(model_.log, testing::EndsWith(".[qsp]"));
  EXPECT_THAT(model_.log, testing::StartsWith("qsp.[.].[q].[q.].q[s].[qs.].qs[p].[qsp.].[qsp].[.]"))
      << "once to see how long it takes, then in each repeat: the eviction; each step behind its "
         "predecessors, and the plan up to it with the eviction; the whole";
}

TEST_F(CountersTest, WhatAPredecessorLeavesDirtyIsItsOwn) {
  // The second step rewrites what the first left in the cache: it adds no bytes of its own.
  Plan plan;
  plan.steps = {step('q', 0, 4000, 0), {"s", [&](Stream) { model_.log += 's'; }}};
  auto counters = this->counters();
  const auto counted = counters.measure(plan, Dtype::bf16);
  ASSERT_TRUE(counted);
  EXPECT_DOUBLE_EQ(counted->steps[0].write_bytes, 4000);
  EXPECT_DOUBLE_EQ(counted->steps[1].write_bytes, 0);
  EXPECT_DOUBLE_EQ(counted->whole.write_bytes, 4000);
}

TEST_F(CountersTest, ADirtyStartIsNotCharged) {
  model_.dirty = 1e9;
  Plan plan;
  plan.steps = {step('f', 10, 20, 1)};
  auto counters = this->counters();
  EXPECT_DOUBLE_EQ(counters.measure(plan, Dtype::bf16)->whole.write_bytes, 20);
}

TEST_F(CountersTest, WritesUnderTheEvictionsOwnAreZeroAndTheirUncertaintyIsStated) {
  model_.noise = 300;
  Plan plan;
  plan.steps = {step('f', 10, 0, 1)};
  auto counters = this->counters();
  const auto counted = counters.measure(plan, Dtype::bf16);
  ASSERT_TRUE(counted);
  EXPECT_GE(counted->whole.write_bytes, 0);
  EXPECT_LE(counted->whole.write_bytes, counted->whole.write_uncertainty_bytes);
  EXPECT_GT(counted->whole.write_uncertainty_bytes, 100);
  EXPECT_LE(counted->whole.write_uncertainty_bytes, 300);
  EXPECT_GT(counted->whole.write_spread_bytes, 100);
}

TEST_F(CountersTest, AsksForTheOperationsOfTheDtype) {
  Plan plan;
  plan.steps = {step('f', 1, 1, 1)};
  auto counters = this->counters();
  counters.measure(plan, Dtype::bf16);
  EXPECT_THAT(profiler_->asked, Contains(Quantity::tensor_bf16_ops));
  EXPECT_THAT(profiler_->asked, Not(Contains(Quantity::tensor_f16_ops)));
  counters.measure(plan, Dtype::f16);
  EXPECT_THAT(profiler_->asked, Contains(Quantity::tensor_f16_ops));
  counters.measure(plan, Dtype::f32);
  EXPECT_THAT(profiler_->asked, Contains(Quantity::f32_ops));
  EXPECT_THAT(profiler_->asked, Contains(Quantity::tensor_tf32_ops))
      << "that no TF32 slipped in is worth a pass";
}

TEST_F(CountersTest, OpensOnceAndOnlyWhenWanted) {
  auto counters = this->counters();
  EXPECT_EQ(opened_, 0);
  EXPECT_TRUE(counters.available());
  EXPECT_TRUE(counters.available());
  EXPECT_EQ(opened_, 1);
}

TEST_F(CountersTest, UnavailableSaysWhyAndIsTriedOnce) {
  int tries = 0;
  Counters counters(device_, [&](Device&) -> std::unique_ptr<RangeProfiler> {
    ++tries;
    throw CountersUnavailable("run as root");
  });
  Plan plan;
  plan.steps = {step('f', 1, 1, 1)};
  EXPECT_EQ(counters.measure(plan, Dtype::bf16), std::nullopt);
  EXPECT_EQ(counters.measure(plan, Dtype::bf16), std::nullopt);
  EXPECT_EQ(counters.reason(), "run as root");
  EXPECT_EQ(tries, 1);
  EXPECT_EQ(model_.log, "") << "nothing ran for counters that are not there";
}

TEST_F(CountersTest, NoCountersOnSuchADevice) {
  Counters counters(device_, nullptr);
  EXPECT_FALSE(counters.available());
  EXPECT_FALSE(counters.reason().empty());
}

TEST_F(CountersTest, LostDuringARunSaysSo) {
  auto counters = this->counters();
  Plan plan;
  plan.steps = {step('f', 1, 1, 1)};
  ASSERT_TRUE(counters.measure(plan, Dtype::bf16));
  profiler_->fail_from_now_on();
  EXPECT_EQ(counters.measure(plan, Dtype::bf16), std::nullopt);
  EXPECT_EQ(counters.reason(), "another profiler took them");
  EXPECT_FALSE(counters.available());
}

TEST_F(CountersTest, AFailingPlanPassesThrough) {
  auto counters = this->counters();
  Plan plan;
  plan.steps = {{"f", [](Stream) { throw DeviceLost("gone"); }}};
  EXPECT_THROW(counters.measure(plan, Dtype::bf16), DeviceLost);
}

}  // namespace
}  // namespace flashbench
