#include "reference_text.h"

#include <gtest/gtest.h>

#include "device_text.h"

namespace flashbench {
namespace {

TEST(ReferenceText, RatesInTheirUnits) {
  EXPECT_EQ(format_rate(Reference::copy, 4.26e12), "4.26 TB/s");
  EXPECT_EQ(format_rate(Reference::read, 8.62e9), "8.62 GB/s");
  EXPECT_EQ(format_rate(Reference::matrix_bf16, 7.95e14), "795 TFLOP/s");
  EXPECT_EQ(format_rate(Reference::matrix_f32, 9.996e11), "1.00 TFLOP/s");
  EXPECT_EQ(format_rate(Reference::exp2, 3.9e12), "3.90 Texp/s");
  EXPECT_EQ(format_rate(Reference::copy, 12), "12.0 B/s");
}

TEST(ReferenceText, OneLine) {
  References references;
  EXPECT_EQ(describe(references), "");
  references.rates[Reference::copy].rate = 4e12;
  references.rates[Reference::matrix_f16].rate = 7.63e14;
  EXPECT_EQ(describe(references), "copy 4.00 TB/s, f16 matrix product 763 TFLOP/s");
}

TEST(DeviceText, OneLine) {
  DeviceInfo cpu;
  cpu.name = "A CPU";
  cpu.sm_count = 1;
  cpu.memory_bytes = std::int64_t{16} << 30;
  EXPECT_EQ(describe(cpu), "A CPU, 1 thread, 16.0 GiB");
  cpu.sm_count = 2;
  cpu.runtime = "OpenBLAS 0.3";
  EXPECT_EQ(describe(cpu), "A CPU, 2 threads, 16.0 GiB, OpenBLAS 0.3");
  DeviceInfo gpu;
  gpu.kind = DeviceKind::cuda;
  gpu.name = "A GPU";
  gpu.compute_capability = 90;
  gpu.sm_count = 132;
  gpu.memory_bytes = std::int64_t{140} << 30;
  gpu.driver = "13.0";
  gpu.runtime = "13.0";
  EXPECT_EQ(describe(gpu), "A GPU, sm_90, 132 multiprocessors, 140 GiB, driver 13.0, CUDA 13.0");
}

}  // namespace
}  // namespace flashbench
