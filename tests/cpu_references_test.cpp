#include "reference/cpu_references.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include "cpu_device.h"
#include "references.h"

namespace flashbench {
namespace {

TEST(CpuReferencesTest, RatesAreOfThisWorld) {
  CpuDevice device("");
  const std::array dtypes{Dtype::f32};
  const auto bench = make_cpu_reference_bench(device, dtypes);
  const std::atomic<bool> stop = false;
  const References references = measure_references(device, *bench, Load::burst, 0.02, stop);
  EXPECT_EQ(references.rates.size(), bench->works().size());
  for (const Reference what : {Reference::copy, Reference::read, Reference::write}) {
    // From a crowded virtual core to a server with every channel filled.
    EXPECT_GT(references.rate(what).value_or(0), 1e8) << to_string(what);
    EXPECT_LT(references.rate(what).value_or(0), 5e12) << to_string(what);
  }
  EXPECT_GT(references.rate(Reference::matrix_f32).value_or(0), 1e8);
  EXPECT_LT(references.rate(Reference::matrix_f32).value_or(0), 1e14);
  EXPECT_EQ(references.rate(Reference::exp2), std::nullopt);
}

}  // namespace
}  // namespace flashbench
