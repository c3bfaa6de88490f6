#include "bound.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flashbench {
namespace {

/// Round figures: 4 TB/s of anything, 800 TFLOP/s bf16, 50 TFLOP/s f32, 4e12 exp2.
References references() {
  References result;
  const auto set = [&](Reference what, double rate) {
    result.rates[what] = {rate, 0.99 * rate, 1.01 * rate, std::nullopt, {rate}};
  };
  set(Reference::copy, 4e12);
  set(Reference::read, 4e12);
  set(Reference::write, 4e12);
  set(Reference::matrix_bf16, 800e12);
  set(Reference::fma_f32, 50e12);
  set(Reference::exp2, 4e12);
  return result;
}

StepWork work(double seconds, double read, double write, MatrixUnit unit, double flops,
              double exps) {
  return {seconds, read, write, false, unit, flops, exps};
}

TEST(BoundOfStep, EachResourceInTurn) {
  const References refs = references();
  // 3.6 of 4 TB/s, and little else.
  const auto hbm =
      bound_of_step(work(1e-3, 3.6e9, 0, MatrixUnit::tensor_bf16, 100e9, 1e8), refs, 3e-6);
  ASSERT_TRUE(hbm);
  EXPECT_EQ(hbm->bound_by, Bound::hbm);
  EXPECT_DOUBLE_EQ(*hbm->hbm_fraction, 0.9);
  EXPECT_DOUBLE_EQ(*hbm->hbm_bytes_per_s, 3.6e12);
  EXPECT_DOUBLE_EQ(*hbm->matrix_fraction, 0.125);
  EXPECT_DOUBLE_EQ(*hbm->exp_fraction, 0.025);
  EXPECT_DOUBLE_EQ(hbm->floor_s, 0.9e-3);
  EXPECT_DOUBLE_EQ(*hbm->intensity, 100e9 / 3.6e9);

  const auto tensor =
      bound_of_step(work(1e-3, 1e8, 1e8, MatrixUnit::tensor_bf16, 600e9, 2e9), refs, 3e-6);
  EXPECT_EQ(tensor->bound_by, Bound::tensor);
  EXPECT_DOUBLE_EQ(tensor->floor_s, 0.75e-3);

  const auto fp32 = bound_of_step(work(1e-3, 1e8, 0, MatrixUnit::fma_f32, 40e9, 1e9), refs, 3e-6);
  EXPECT_EQ(fp32->bound_by, Bound::fp32);
  EXPECT_DOUBLE_EQ(*fp32->matrix_fraction, 0.8);

  const auto exp =
      bound_of_step(work(1e-3, 1e8, 0, MatrixUnit::tensor_bf16, 400e9, 2.4e9), refs, 3e-6);
  EXPECT_EQ(exp->bound_by, Bound::exp);
  EXPECT_DOUBLE_EQ(exp->floor_s, 0.6e-3);
}

TEST(BoundOfStep, LatencyWhenNothingIsBusy) {
  const References refs = references();
  const auto idle =
      bound_of_step(work(1e-3, 1.1e9, 0, MatrixUnit::tensor_bf16, 230e9, 1e9), refs, 3e-6);
  EXPECT_EQ(idle->bound_by, Bound::latency) << "the busiest is at 28.75 %";
  EXPECT_DOUBLE_EQ(idle->floor_s, 0.2875e-3) << "a floor it has all the same";
  const auto busier =
      bound_of_step(work(1e-3, 1.1e9, 0, MatrixUnit::tensor_bf16, 248e9, 1e9), refs, 3e-6);
  EXPECT_EQ(busier->bound_by, Bound::tensor) << "31 %";
}

TEST(BoundOfStep, LatencyWhenTooShortToTell) {
  const References refs = references();
  const StepWork full = work(5e-6, 20e6, 0, MatrixUnit::none, 0, 0);
  EXPECT_EQ(bound_of_step(full, refs, 1e-6)->bound_by, Bound::hbm);
  EXPECT_EQ(bound_of_step(full, refs, 3e-6)->bound_by, Bound::latency);
}

TEST(BoundOfStep, FasterThanTheReferenceIsNoError) {
  const auto fast =
      bound_of_step(work(1e-3, 0, 0, MatrixUnit::tensor_bf16, 900e9, 0), references(), 0);
  EXPECT_EQ(fast->bound_by, Bound::tensor);
  EXPECT_DOUBLE_EQ(*fast->matrix_fraction, 1.125);
  EXPECT_GT(fast->floor_s, 1e-3);
  EXPECT_EQ(fast->hbm_fraction, std::nullopt);
  EXPECT_EQ(fast->intensity, std::nullopt);
}

TEST(BoundOfStep, WithoutTheReferenceTheRateStands) {
  References refs = references();
  refs.rates.erase(Reference::exp2);
  const auto step = bound_of_step(work(1e-3, 2e9, 0, MatrixUnit::none, 0, 3.9e9), refs, 0);
  EXPECT_EQ(step->bound_by, Bound::hbm);
  EXPECT_EQ(step->exps_per_s, 3.9e12);
  EXPECT_EQ(step->exp_fraction, std::nullopt);
  EXPECT_EQ(bound_of_step(work(1e-3, 2e9, 0, MatrixUnit::none, 0, 0), {}, 0), std::nullopt);
  EXPECT_EQ(bound_of_step(work(0, 2e9, 0, MatrixUnit::none, 0, 0), refs, 0), std::nullopt);
}

TEST(BoundOfStep, OnACpuTheLibrarysProductStandsForF32) {
  References refs = references();
  refs.rates.erase(Reference::fma_f32);
  refs.rates[Reference::matrix_f32] = {100e9, 99e9, 101e9, std::nullopt, {100e9}};
  const auto step = bound_of_step(work(1, 1e6, 0, MatrixUnit::fma_f32, 70e9, 0), refs, 0);
  EXPECT_EQ(step->bound_by, Bound::fp32);
  EXPECT_DOUBLE_EQ(*step->matrix_fraction, 0.7);
}

TEST(BoundOfStep, MaterialisedAttentionOnAnH200) {
  // N = 16384, one head of four, d = 128, bf16: QK^T 0.75 ms, softmax 1.09 ms, PV 0.53 ms.
  const References refs = references();
  const double scores = 16384.0 * 16384 * 4;
  const double flops = 2 * scores * 128;
  EXPECT_EQ(
      bound_of_step(work(0.75e-3, 34e6, 2 * scores, MatrixUnit::tensor_bf16, flops, 0), refs, 3e-6)
          ->bound_by,
      Bound::hbm);
  EXPECT_EQ(
      bound_of_step(work(1.09e-3, 2 * scores, 2 * scores, MatrixUnit::none, 0, scores), refs, 3e-6)
          ->bound_by,
      Bound::hbm);
  // The same QK^T at d = 512 is not bound by memory any more.
  EXPECT_EQ(bound_of_step(work(1.6e-3, 134e6, 2 * scores, MatrixUnit::tensor_bf16, 4 * flops, 0),
                          refs, 3e-6)
                ->bound_by,
            Bound::tensor);
}

TEST(BoundOfPlan, FloorsAddUpAndMostOfTheTimeNamesTheBound) {
  std::vector<StepBound> steps(3);
  steps[0].bound_by = Bound::hbm;
  steps[0].floor_s = 0.6e-3;
  steps[1].bound_by = Bound::tensor;
  steps[1].floor_s = 0.7e-3;
  steps[2].bound_by = Bound::hbm;
  steps[2].floor_s = 0.2e-3;
  const std::vector<double> seconds{0.7e-3, 0.8e-3, 0.3e-3};
  const auto plan = bound_of_plan(steps, seconds, 1.8e-3);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->bound_by, Bound::hbm) << "1.0 of 1.8 ms";
  EXPECT_DOUBLE_EQ(plan->floor_s, 1.5e-3);
  EXPECT_DOUBLE_EQ(plan->time_over_floor, 1.2);
  EXPECT_EQ(bound_of_plan({}, {}, 1), std::nullopt);
  EXPECT_EQ(bound_of_plan(steps, std::vector<double>{1.0}, 1), std::nullopt);
  EXPECT_EQ(bound_of_plan(steps, seconds, 0), std::nullopt);
}

DeviceInfo h200() {
  DeviceInfo info;
  info.kind = DeviceKind::cuda;
  info.sm_count = 132;
  info.compute_capability = 90;
  info.max_clock_hz = 1.98e9;
  info.memory_peak_bytes_per_s = 4.8e12;
  info.l2_bytes = 60'000'000;
  return info;
}

TEST(Impossibilities, AboveTheTensorPeakAtTheObservedClock) {
  // 4096 operations a clock and SM: 1070.5 TFLOP/s at 1.98 GHz, 811 at 1.5.
  const StepWork fast = work(1e-3, 0, 0, MatrixUnit::tensor_bf16, 850e9, 0);
  EXPECT_TRUE(impossibilities(fast, h200(), 1.98e9).empty());
  EXPECT_TRUE(impossibilities(fast, h200(), std::nullopt).empty()) << "the maximum is assumed";
  const auto reasons = impossibilities(fast, h200(), 1.5e9);
  ASSERT_EQ(reasons.size(), 1U);
  EXPECT_THAT(reasons[0], testing::HasSubstr("1500 MHz"));
  EXPECT_FALSE(
      impossibilities(work(1e-3, 0, 0, MatrixUnit::tensor_bf16, 1100e9, 0), h200(), std::nullopt)
          .empty());
  EXPECT_FALSE(
      impossibilities(work(1e-3, 0, 0, MatrixUnit::tensor_tf32, 560e9, 0), h200(), 1.98e9).empty());
  EXPECT_TRUE(
      impossibilities(work(1e-3, 0, 0, MatrixUnit::fma_f32, 63e9, 0), h200(), 1.98e9).empty());
  EXPECT_FALSE(
      impossibilities(work(1e-3, 0, 0, MatrixUnit::fma_f32, 70e9, 0), h200(), 1.98e9).empty());
}

TEST(Impossibilities, AboveTheMemorysDataSheetOnlyWhenMeasured) {
  StepWork step = work(1e-3, 4e9, 1.2e9, MatrixUnit::none, 0, 0);
  EXPECT_TRUE(impossibilities(step, h200(), 1.98e9).empty()) << "a model may be wrong";
  step.bytes_measured = true;
  EXPECT_EQ(impossibilities(step, h200(), 1.98e9).size(), 1U);
  StepWork quick = work(10e-6, 1e6, 55e6, MatrixUnit::none, 0, 0);
  quick.bytes_measured = true;
  EXPECT_TRUE(impossibilities(quick, h200(), 1.98e9).empty()) << "written to the cache so far";
  step.read_bytes = 3.4e9;
  EXPECT_TRUE(impossibilities(step, h200(), 1.98e9).empty());
}

TEST(Impossibilities, NothingIsKnownOfAnUnknownArchitectureOrACpu) {
  DeviceInfo unknown = h200();
  unknown.compute_capability = 999;
  const StepWork fast = work(1e-3, 0, 0, MatrixUnit::tensor_bf16, 1e18, 0);
  EXPECT_TRUE(impossibilities(fast, unknown, 1.98e9).empty());
  DeviceInfo cpu;
  EXPECT_TRUE(impossibilities(fast, cpu, std::nullopt).empty());
  EXPECT_EQ(architecture_peak(75, MatrixUnit::tensor_bf16).matrix_flops_per_clock_per_sm,
            std::nullopt)
      << "Turing has no bf16";
  EXPECT_EQ(architecture_peak(90, MatrixUnit::tensor_f16).matrix_flops_per_clock_per_sm, 4096);
}

}  // namespace
}  // namespace flashbench
