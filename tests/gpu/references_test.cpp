#include "references.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include "bound.h"
#include "kernels/harness/cuda_device.h"
#include "kernels/harness/cuda_references.h"

namespace flashbench {
namespace {

TEST(GpuReferencesTest, RatesArePossibleAndNearWhatTheDeviceCanDo) {
  CudaDevice device;
  const DeviceInfo& info = device.info();
  const std::array dtypes{Dtype::f32, Dtype::f16, Dtype::bf16};
  const std::int64_t free_before = device.free_bytes();
  References references;
  {
    const auto bench = make_cuda_reference_bench(device, dtypes);
    const std::atomic<bool> stop = false;
    references = measure_references(device, *bench, Load::burst, 0.2, stop);
    EXPECT_EQ(references.rates.size(), bench->works().size());
  }
  EXPECT_GE(device.free_bytes(), free_before - (std::int64_t{256} << 20))
      << "the buffers go with the bench; what cuBLAS loads stays";

  for (const Reference what : {Reference::copy, Reference::read, Reference::write}) {
    const double rate = references.rate(what).value_or(0);
    EXPECT_GT(rate, 0.6 * info.memory_peak_bytes_per_s) << to_string(what);
    EXPECT_LT(rate, info.memory_peak_bytes_per_s) << to_string(what);
  }
  const double sm_clocks = info.max_clock_hz * info.sm_count;
  const auto share = [&](Reference what, MatrixUnit unit) {
    const auto peak = architecture_peak(info.compute_capability, unit);
    if (!peak.matrix_flops_per_clock_per_sm || !references.rate(what)) return 0.5;
    return *references.rate(what) / (*peak.matrix_flops_per_clock_per_sm * sm_clocks);
  };
  EXPECT_GT(share(Reference::fma_f32, MatrixUnit::fma_f32), 0.8);
  for (const auto& [what, unit] : {std::pair{Reference::fma_f32, MatrixUnit::fma_f32},
                                   {Reference::matrix_f32, MatrixUnit::fma_f32},
                                   {Reference::matrix_tf32, MatrixUnit::tensor_tf32},
                                   {Reference::matrix_f16, MatrixUnit::tensor_f16},
                                   {Reference::matrix_bf16, MatrixUnit::tensor_bf16}}) {
    EXPECT_GT(share(what, unit), 0.3) << to_string(what);
    EXPECT_LT(share(what, unit), 1.0) << to_string(what);
  }
  const auto exps =
      architecture_peak(info.compute_capability, MatrixUnit::none).exps_per_clock_per_sm;
  if (exps) {
    EXPECT_GT(references.rate(Reference::exp2).value_or(0), 0.85 * *exps * sm_clocks);
    EXPECT_LT(references.rate(Reference::exp2).value_or(0), 1.01 * *exps * sm_clocks);
  }
}

}  // namespace
}  // namespace flashbench
