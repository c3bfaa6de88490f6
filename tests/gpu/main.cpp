#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdio>

namespace {

/// What CTest takes for "skipped" (SKIP_RETURN_CODE in tests/CMakeLists.txt).
constexpr int kSkipped = 77;

/// Why no device answers, or null.
const char* obstacle() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return cudaGetErrorString(error);
  return count == 0 ? "none is visible" : nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!testing::GTEST_FLAG(list_tests)) {
    // Not GTEST_SKIP in an environment's SetUp: GoogleTest calls what it leaves out passed.
    if (const char* reason = obstacle()) {
      std::printf("[  SKIPPED ] no CUDA device: %s\n", reason);
      return kSkipped;
    }
  }
  return RUN_ALL_TESTS();
}
