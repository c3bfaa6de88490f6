#include "figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flashbench {
namespace {

using testing::DoubleNear;
using testing::IsEmpty;

References references_of(double bandwidth, double bf16, double exps) {
  References references;
  references.rates[Reference::copy].rate = bandwidth;
  references.rates[Reference::matrix_bf16].rate = bf16;
  references.rates[Reference::exp2].rate = exps;
  return references;
}

StepModel model_of(const char* name, std::int64_t read, std::int64_t write, double flops,
                   double exps) {
  return {.name = name,
          .read_bytes = read,
          .write_bytes = write,
          .unit = MatrixUnit::tensor_bf16,
          .matrix_flops = flops,
          .exps = exps};
}

class Figures : public testing::Test {
 protected:
  Figures() {
    cell_.time.emplace().median_s = 3e-3;
    device_.kind = DeviceKind::cuda;
    device_.compute_capability = 90;
    device_.sm_count = 132;
    device_.max_clock_hz = 1.98e9;
    device_.memory_peak_bytes_per_s = 4.8e12;
  }
  Cell cell_;
  DeviceInfo device_;
  References references_ = references_of(4e12, 800e12, 4e12);
};

TEST_F(Figures, EachStepIsBoundByWhatTakesLongestAndFloorsAddUp) {
  const std::vector<std::string> names{"products", "traffic"};
  Measurements measured;
  measured.step_seconds = {1e-3, 2e-3};
  measured.models = {model_of("products", 1'000'000'000, 0, 640e9, 0),
                     model_of("traffic", 3'000'000'000, 3'000'000'000, 1e9, 0)};
  derive_figures(cell_, names, measured, &references_, device_);
  ASSERT_EQ(cell_.steps.size(), 2U);
  EXPECT_EQ(cell_.steps[0].bound->bound_by, Bound::tensor);
  EXPECT_EQ(cell_.steps[1].bound->bound_by, Bound::hbm);
  EXPECT_THAT(cell_.bound->floor_s, DoubleNear(640e9 / 800e12 + 6e9 / 4e12, 1e-9));
  EXPECT_EQ(cell_.bound->bound_by, Bound::hbm);
}

TEST_F(Figures, MeasuredBytesReplaceTheModels) {
  const std::vector<std::string> names{"attention"};
  Measurements measured;
  measured.step_seconds = {3e-3};
  measured.models = {model_of("attention", 1, 1, 1e9, 0)};
  CounterFigures& whole = measured.counters.emplace().whole;
  whole.read_bytes = 6e9;
  whole.write_bytes = 4e9;
  derive_figures(cell_, names, measured, &references_, device_);
  EXPECT_EQ(cell_.steps[0].measured->read_bytes, 6e9);
  EXPECT_THAT(*cell_.steps[0].bound->hbm_bytes_per_s, DoubleNear(1e10 / 3e-3, 1));
  EXPECT_EQ(cell_.steps[0].bound->bound_by, Bound::hbm);
}

TEST_F(Figures, WithoutAModelTheCountedOperationsDecide) {
  const std::vector<std::string> names{"attention"};
  Measurements measured;
  measured.step_seconds = {1e-3};
  CounterFigures& whole = measured.counters.emplace().whole;
  whole.read_bytes = 1e8;
  whole.tensor_bf16_ops = 640e9;
  whole.special_ops = 1e9;
  derive_figures(cell_, names, measured, &references_, device_);
  EXPECT_EQ(cell_.steps[0].bound->bound_by, Bound::tensor);
  EXPECT_THAT(*cell_.steps[0].bound->matrix_fraction, DoubleNear(0.8, 1e-9));
}

TEST_F(Figures, AnImpossibleFigureIsMarkedAndBoundsNothing) {
  const std::vector<std::string> names{"attention"};
  Measurements measured;
  measured.step_seconds = {3e-3};
  measured.models = {model_of("attention", 1, 1, 1e15, 0)};  // 333 PFLOP/s
  derive_figures(cell_, names, measured, &references_, device_);
  EXPECT_EQ(cell_.steps[0].impossible.size(), 1U);
  EXPECT_FALSE(cell_.steps[0].bound);
  EXPECT_FALSE(cell_.bound);
}

TEST_F(Figures, WithoutReferencesOrModelThereIsNoBound) {
  const std::vector<std::string> names{"attention"};
  Measurements measured;
  measured.step_seconds = {3e-3};
  derive_figures(cell_, names, measured, &references_, device_);
  EXPECT_FALSE(cell_.steps[0].bound);
  measured.models = {model_of("attention", 1'000'000'000, 0, 1e9, 0)};
  derive_figures(cell_, names, measured, nullptr, device_);
  EXPECT_FALSE(cell_.steps[0].bound);
  EXPECT_THAT(cell_.steps[0].impossible, IsEmpty());
}

TEST_F(Figures, UntimedStepsKeepTheirModel) {
  const std::vector<std::string> names{"QKᵀ", "PV"};
  Measurements measured;
  measured.models = {model_of("QKᵀ", 5, 6, 7, 0), model_of("PV", 8, 9, 10, 0)};
  derive_figures(cell_, names, measured, &references_, device_);
  EXPECT_EQ(cell_.steps[1].model->read_bytes, 8);
  EXPECT_FALSE(cell_.steps[1].median_s);
  EXPECT_FALSE(cell_.bound);
}

}  // namespace
}  // namespace flashbench
