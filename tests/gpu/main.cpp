#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

namespace {

/// Skips every test, with the reason, where no device answers.
class DeviceEnvironment : public testing::Environment {
 public:
  void SetUp() override {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess) GTEST_SKIP() << "no CUDA device: " << cudaGetErrorString(error);
    if (count == 0) GTEST_SKIP() << "no CUDA device";
  }
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::AddGlobalTestEnvironment(new DeviceEnvironment);
  return RUN_ALL_TESTS();
}
