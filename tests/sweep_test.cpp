#include "sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "error.h"
#include "fakes.h"
#include "reference/oracle.h"

namespace flashbench {
namespace {

using testing::DoubleNear;
using testing::HasSubstr;

class Sweep : public testing::Test {
 protected:
  using Body = std::function<void(const Problem&, const Operands&)>;

  Sweep() {
    auto device = std::make_unique<FakeDevice>();
    device_ = device.get();
    backend_.device = std::move(device);
    backend_.oracle = make_cpu_oracle();
    request_.problems = {{.batch = 1,
                          .heads = 2,
                          .kv_heads = 1,
                          .n_q = 40,
                          .n_kv = 70,
                          .head_dim = 16,
                          .mask = Mask::causal,
                          .scale = 0.25}};
    request_.settings.samples = 7;
  }

  FakeImplementation& add(std::string name, Kind kind, Body run) {
    auto implementation = std::make_unique<FakeImplementation>(name, kind, std::move(run));
    FakeImplementation& reference = *implementation;
    backend_.catalogue.push_back(std::move(implementation));
    request_.implementations.push_back(std::move(name));
    return reference;
  }
  /// A right implementation that takes `seconds`.
  FakeImplementation& add_right(std::string name, Kind kind, double seconds) {
    return add(std::move(name), kind,
               [this, seconds](const Problem& problem, const Operands& operands) {
                 plain_attention_into(problem, operands);
                 device_->advance(seconds);
               });
  }
  /// Right but for what `spoil` does to the output.
  FakeImplementation& add_spoilt(std::string name, std::function<void(float*)> spoil) {
    return add(std::move(name), Kind::fused,
               [this, spoil](const Problem& problem, const Operands& operands) {
                 plain_attention_into(problem, operands);
                 spoil(static_cast<float*>(operands.o.data));
                 device_->advance(1e-3);
               });
  }

  flashbench::Run run() {
    flashbench::Run result;
    SweepObserver observer;
    sweep(backend_, request_, result, observer, stop_);
    return result;
  }

  FakeDevice* device_;
  Backend backend_;
  SweepRequest request_;
  std::atomic<bool> stop_{false};
};

TEST_F(Sweep, RightImplementationsAreExactAndCompared) {
  add_right("slow", Kind::naive, 4e-3);
  add_right("quick", Kind::fused, 1e-3);
  const auto result = run();
  ASSERT_EQ(result.cells.size(), 2U);
  for (const Cell& cell : result.cells) {
    EXPECT_EQ(cell.status, Status::ok) << cell.reason.value_or("");
    ASSERT_TRUE(cell.exactness);
    EXPECT_EQ(cell.exactness->verdict, Verdict::exact);
    EXPECT_EQ(cell.exactness->rows_checked, 80);
    EXPECT_EQ(cell.exactness->deterministic, true);
    EXPECT_EQ(cell.time->samples_s.size(), 7U);
  }
  EXPECT_THAT(result.cells[1].speedup_over_naive->ratio, DoubleNear(4.0, 1e-9));
  EXPECT_THAT(result.cells[1].time->median_s, DoubleNear(1e-3, 1e-12));
  EXPECT_EQ(exit_code(result), 0);
  EXPECT_EQ(device_->live_allocations(), 0U);
}

TEST_F(Sweep, EveryKindOfWrongOutputIsCaughtAndNeverTimed) {
  const auto all = [](float* o, float value) { std::fill_n(o, 40 * 2 * 16, value); };
  add_spoilt("zeros", [all](float* o) { all(o, 0.0F); });
  add_spoilt("nan", [](float* o) { o[777] = std::numeric_limits<float>::quiet_NaN(); });
  add_spoilt("infinite", [](float* o) { o[777] = std::numeric_limits<float>::infinity(); });
  add_spoilt("slightly", [](float* o) { o[777] *= 1.0001F; });
  add("nothing", Kind::fused, [](const Problem&, const Operands&) {});
  add("dropped-tile", Kind::fused, [](const Problem& problem, const Operands& operands) {
    Problem shorter = problem;
    shorter.n_kv -= 16;
    plain_attention_into(shorter, operands);
  });
  add_right("right", Kind::fused, 1e-3);
  const auto result = run();
  ASSERT_EQ(result.cells.size(), 7U);
  for (std::size_t i = 0; i < 6; ++i) {
    const Cell& cell = result.cells[i];
    EXPECT_EQ(cell.status, Status::wrong) << cell.implementation;
    EXPECT_TRUE(cell.reason) << cell.implementation;
    EXPECT_FALSE(cell.time) << cell.implementation;
  }
  EXPECT_EQ(result.cells.back().status, Status::ok);
  EXPECT_EQ(exit_code(result), 1);
}

TEST_F(Sweep, TurningWrongWhileTimedIsCaught) {
  int launches = 0;
  add("tiring", Kind::fused, [&](const Problem& problem, const Operands& operands) {
    plain_attention_into(problem, operands);
    if (++launches > 4) static_cast<float*>(operands.o.data)[3] += 1.0F;
    device_->advance(1e-3);
  });
  const auto result = run();
  EXPECT_EQ(result.cells[0].status, Status::wrong);
  EXPECT_FALSE(result.cells[0].time);
}

TEST_F(Sweep, UnequalLaunchesAreReportedAsNotDeterministic) {
  int launches = 0;
  add("wavering", Kind::fused, [&](const Problem& problem, const Operands& operands) {
    plain_attention_into(problem, operands);
    float& element = static_cast<float*>(operands.o.data)[3];
    if (++launches % 2 == 0) element = std::nextafter(element, 2.0F);
    device_->advance(1e-3);
  });
  const auto result = run();
  EXPECT_EQ(result.cells[0].status, Status::ok) << result.cells[0].reason.value_or("");
  EXPECT_EQ(result.cells[0].exactness->deterministic, false);
}

TEST_F(Sweep, AThrowingImplementationFailsAloneWithItsReason) {
  add("broken", Kind::fused,
      [](const Problem&, const Operands&) { throw Error("cannot do that on a Monday"); });
  add_right("right", Kind::fused, 1e-3);
  const auto result = run();
  EXPECT_EQ(result.cells[0].status, Status::failed);
  EXPECT_EQ(result.cells[0].reason, "cannot do that on a Monday");
  EXPECT_EQ(result.cells[1].status, Status::ok);
  EXPECT_EQ(exit_code(result), 3);
}

TEST_F(Sweep, AnAllocationThatFailsAllTheSameCostsOnlyItsCell) {
  add_right("right", Kind::fused, 1e-3);
  auto& hungry = add_right("hungry", Kind::naive, 1e-3);
  hungry.workspace_fn = [](const Problem&) { return std::int64_t{1} << 30; };
  device_->refuse_above(std::int64_t{1} << 20);
  const auto result = run();
  EXPECT_EQ(result.cells[0].status, Status::ok) << result.cells[0].reason.value_or("");
  EXPECT_EQ(result.cells[1].status, Status::out_of_memory);
  EXPECT_EQ(exit_code(result), 0);
}

TEST_F(Sweep, MemoryTakenBehindTheHarnessIsCaught) {
  device_->mutable_info().kind = DeviceKind::cuda;
  add("sly", Kind::fused, [&](const Problem& problem, const Operands& operands) {
    plain_attention_into(problem, operands);
    device_->take_behind_the_harness(std::int64_t{64} << 20);
  });
  const auto result = run();
  EXPECT_EQ(result.cells[0].status, Status::failed);
  EXPECT_THAT(*result.cells[0].reason, HasSubstr("behind the harness"));
}

TEST_F(Sweep, ALostDeviceLeavesTheRestNotRun) {
  add("fatal", Kind::fused, [&](const Problem&, const Operands&) { device_->lose(); });
  request_.problems.push_back(request_.problems.front());
  const auto result = run();
  ASSERT_EQ(result.cells.size(), 2U);
  EXPECT_EQ(result.cells[0].status, Status::failed);
  EXPECT_THAT(*result.cells[0].reason, HasSubstr("illegal address"));
  EXPECT_EQ(result.cells[1].status, Status::not_run);
  EXPECT_THAT(*result.cells[1].reason, HasSubstr("illegal address"));
  EXPECT_EQ(exit_code(result), 3);
}

TEST_F(Sweep, AnInterruptEndsAfterTheProblemInHand) {
  add("stopping", Kind::fused, [&](const Problem& problem, const Operands& operands) {
    plain_attention_into(problem, operands);
    stop_ = true;
  });
  request_.problems.push_back(request_.problems.front());
  const auto result = run();
  EXPECT_TRUE(result.interrupted);
  ASSERT_EQ(result.cells.size(), 1U);
  EXPECT_EQ(result.cells[0].status, Status::not_run);
  EXPECT_EQ(exit_code(result), 130);
}

TEST_F(Sweep, StepsAreNamedAndTheirTimesAddUp) {
  auto& naive = add_right("three", Kind::naive, 3e-3);
  naive.step_names = {"QKᵀ", "softmax", "PV"};
  const auto result = run();
  const Cell& cell = result.cells[0];
  ASSERT_EQ(cell.steps.size(), 3U);
  EXPECT_EQ(cell.steps[1].name, "softmax");
  double sum = 0;
  for (const StepResult& step : cell.steps) sum += step.median_s.value_or(-1);
  EXPECT_THAT(sum, DoubleNear(cell.time->median_s, 1e-12));
}

TEST_F(Sweep, ScoresBeyondTheDtypeAreUnsupportedWithTheLargest) {
  request_.problems[0].dtype = Dtype::f16;
  request_.problems[0].scale = 1e5;
  add_right("stores", Kind::naive, 1e-3).arithmetic_value.scores_in_dtype = true;
  const auto result = run();
  EXPECT_EQ(result.cells[0].status, Status::unsupported);
  EXPECT_THAT(*result.cells[0].reason, HasSubstr("65504"));
}

/// Counts of what it is told.
class FakeProfiler : public RangeProfiler {
 public:
  Result profile(std::span<const Quantity> quantities,
                 std::span<const CountedRange> ranges) override {
    Result result;
    result.passes = 1;
    for (const CountedRange& range : ranges) {
      range.prepare(nullptr);
      range.body(nullptr);
      Counts counts;
      for (const Quantity quantity : quantities) counts[quantity] = 1000;
      result.ranges.push_back(counts);
    }
    return result;
  }
};

TEST_F(Sweep, CountersFillTheMeasuredTraffic) {
  backend_.open_profiler = [](Device&) { return std::make_unique<FakeProfiler>(); };
  add_right("right", Kind::fused, 1e-3);
  const auto result = run();
  ASSERT_TRUE(result.cells[0].steps[0].measured) << result.cells[0].measured_reason.value_or("");
  EXPECT_EQ(result.cells[0].steps[0].measured->read_bytes, 1000);
  EXPECT_FALSE(result.cells[0].measured_reason);
}

TEST_F(Sweep, MissingCountersAreSaidOnceAndTheSweepGoesOn) {
  device_->mutable_info().kind = DeviceKind::cuda;
  int opened = 0;
  backend_.open_profiler = [&](Device&) -> std::unique_ptr<RangeProfiler> {
    ++opened;
    throw CountersUnavailable("no permission: run as root");
  };
  add_right("right", Kind::fused, 1e-3);
  request_.problems.push_back(request_.problems.front());
  const auto result = run();
  EXPECT_EQ(opened, 1);
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_THAT(result.warnings[0], HasSubstr("no permission"));
  ASSERT_EQ(result.cells.size(), 2U);
  EXPECT_EQ(result.cells[1].status, Status::ok);
  EXPECT_THAT(*result.cells[1].measured_reason, HasSubstr("no permission"));
}

TEST_F(Sweep, CountersAskedForAndMissingEndTheRun) {
  request_.settings.counters = CounterMode::on;
  add_right("right", Kind::fused, 1e-3);
  EXPECT_THROW(run(), Error);
}

TEST_F(Sweep, CountersOffAreNotTouched) {
  request_.settings.counters = CounterMode::off;
  backend_.open_profiler = [](Device&) -> std::unique_ptr<RangeProfiler> {
    ADD_FAILURE() << "opened";
    return nullptr;
  };
  add_right("right", Kind::fused, 1e-3);
  EXPECT_EQ(run().cells[0].measured_reason, "counters are off");
}

// The two series of a noise floor take turns in starting a round (A B, B A, ...), so a launch in
// the two slow quarters of a period of four is one and the same series in two of the four phases,
// and shared in the others.
TEST_F(Sweep, ANoiseFloorThatMissesOneMarksTheRunUnstable) {
  request_.settings.noise_floor = true;
  request_.settings.samples = 40;
  request_.settings.time_limit_s = 1e6;  // of the wall clock: a slow machine takes all samples too
  int launches = 0;
  int phase = 0;
  add("lopsided", Kind::fused, [&](const Problem& problem, const Operands& operands) {
    plain_attention_into(problem, operands);
    device_->advance((launches++ + phase) % 4 < 2 ? 1.0e-3 : 1.1e-3);
  });
  int unstable = 0;
  for (; phase < 4; ++phase) {
    launches = 0;
    const auto result = run();
    ASSERT_TRUE(result.noise_floor);
    EXPECT_EQ(result.noise_floor->stable, result.warnings.empty());
    if (result.noise_floor->stable) continue;
    ++unstable;
    EXPECT_THAT(result.warnings.back(), HasSubstr("unstable"));
  }
  EXPECT_EQ(unstable, 2);
}

TEST_F(Sweep, ASteadyNoiseFloorIsNoWarning) {
  request_.settings.noise_floor = true;
  add_right("steady", Kind::fused, 1e-3);
  const auto result = run();
  ASSERT_TRUE(result.noise_floor);
  EXPECT_TRUE(result.noise_floor->stable);
  EXPECT_TRUE(result.warnings.empty());
}

TEST(ExitCode, NamesTheWorstThingThatHappened) {
  const auto code = [](std::initializer_list<Status> statuses, bool interrupted = false) {
    flashbench::Run run;
    run.interrupted = interrupted;
    for (const Status status : statuses) {
      Cell cell;
      cell.status = status;
      run.cells.push_back(cell);
    }
    return exit_code(run);
  };
  EXPECT_EQ(code({Status::ok, Status::unsupported, Status::out_of_memory}), 0);
  EXPECT_EQ(code({Status::ok, Status::wrong}), 1);
  EXPECT_EQ(code({Status::wrong, Status::failed}), 3);
  EXPECT_EQ(code({Status::ok, Status::not_run}), 3);
  EXPECT_EQ(code({Status::ok}, true), 130);
}

}  // namespace
}  // namespace flashbench
