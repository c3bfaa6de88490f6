#include "references.h"

#include <gtest/gtest.h>

#include <vector>

#include "fakes.h"

namespace flashbench {
namespace {

References with(std::initializer_list<std::pair<Reference, double>> rates) {
  References result;
  for (const auto& [what, rate] : rates) {
    result.rates[what] = {rate, rate, rate, std::nullopt, {rate}};
  }
  return result;
}

TEST(References, BandwidthFollowsTheMix) {
  const References refs =
      with({{Reference::copy, 4.0}, {Reference::read, 5.0}, {Reference::write, 2.0}});
  EXPECT_DOUBLE_EQ(*refs.bandwidth(10, 0), 5);
  EXPECT_DOUBLE_EQ(*refs.bandwidth(7, 7), 4);
  EXPECT_DOUBLE_EQ(*refs.bandwidth(0, 3), 2);
  EXPECT_DOUBLE_EQ(*refs.bandwidth(3, 1), 1 / (0.5 / 5 + 0.5 / 4));
  EXPECT_DOUBLE_EQ(*refs.bandwidth(1, 3), 1 / (0.5 / 2 + 0.5 / 4));
  EXPECT_DOUBLE_EQ(*refs.bandwidth(0, 0), 4);
  EXPECT_DOUBLE_EQ(*with({{Reference::copy, 4.0}}).bandwidth(1, 0), 4);
  EXPECT_EQ(with({{Reference::read, 4.0}}).bandwidth(1, 0), std::nullopt);
}

TEST(References, LaterMeasurementsReplaceAndAreRemembered) {
  References refs = with({{Reference::copy, 4.0}, {Reference::read, 5.0}});
  EXPECT_EQ(refs.drift(), 0);
  refs.add(with({{Reference::copy, 3.8}}));
  refs.add(with({{Reference::copy, 3.9}, {Reference::write, 2.0}}));
  EXPECT_EQ(refs.rate(Reference::copy), 3.9);
  EXPECT_EQ(refs.rates[Reference::copy].history, (std::vector{4.0, 3.8, 3.9}));
  EXPECT_EQ(refs.rates[Reference::read].history, (std::vector{5.0}));
  EXPECT_NEAR(refs.drift(), 4.0 / 3.8 - 1, 1e-12);
  EXPECT_EQ(refs.rate(Reference::exp2), std::nullopt);
}

/// Works whose time is stated.
class FakeBench : public ReferenceBench {
 public:
  const std::vector<ReferenceWork>& works() const override { return list; }
  std::vector<ReferenceWork> list;
};

class StatedTimeDevice : public FakeDevice {
 public:
  StatedTimeDevice() : FakeDevice(std::int64_t{8} << 30, DeviceKind::cuda) {}
  Sample time(const Enqueue& enqueue, CacheState cache) override {
    EXPECT_EQ(cache, CacheState::cold);
    seconds = 0;
    enqueue(nullptr);
    return {seconds, 1.5e9};
  }
  double seconds = 0;
};

TEST(MeasureReferences, RatesAreAmountsOverMedianTimes) {
  StatedTimeDevice device;
  FakeBench bench;
  bench.list.push_back({Reference::copy, 8e9, [&](Stream) { device.seconds = 2e-3; }});
  bench.list.push_back({Reference::exp2, 1e9, [&](Stream) { device.seconds = 0.5e-3; }});
  const std::atomic<bool> stop = false;
  const References refs = measure_references(device, bench, Load::burst, 0.2, stop);
  EXPECT_EQ(refs.load, Load::burst);
  EXPECT_DOUBLE_EQ(*refs.rate(Reference::copy), 4e12);
  EXPECT_DOUBLE_EQ(*refs.rate(Reference::exp2), 2e12);
  EXPECT_EQ(refs.rates.at(Reference::copy).sm_clock_hz, 1.5e9);
  EXPECT_EQ(refs.rates.at(Reference::copy).history.size(), 1U);
}

TEST(MeasureReferences, StoppedMeansAbsent) {
  StatedTimeDevice device;
  FakeBench bench;
  bench.list.push_back({Reference::copy, 8e9, [&](Stream) { device.seconds = 2e-3; }});
  const std::atomic<bool> stop = true;
  EXPECT_TRUE(measure_references(device, bench, Load::burst, 0.2, stop).rates.empty());
}

TEST(MatrixReference, EveryUnitHasItsOwn) {
  EXPECT_EQ(matrix_reference(MatrixUnit::none), std::nullopt);
  EXPECT_EQ(matrix_reference(MatrixUnit::fma_f32), Reference::fma_f32);
  EXPECT_EQ(matrix_reference(MatrixUnit::tensor_bf16), Reference::matrix_bf16);
  EXPECT_EQ(matrix_reference(MatrixUnit::tensor_f16), Reference::matrix_f16);
  EXPECT_EQ(matrix_reference(MatrixUnit::tensor_tf32), Reference::matrix_tf32);
}

}  // namespace
}  // namespace flashbench
