#include <string>

#include "device_fixture.h"
#include "kernels/catalogue.h"

namespace flashbench {
namespace {

class CudnnTest : public KernelTest {
 protected:
  void SetUp() override {
    if (const auto reason = cudnn_->unavailable(backend().device->info())) GTEST_SKIP() << *reason;
  }
  std::unique_ptr<Implementation> cudnn_ = make_cudnn();
};

TEST_F(CudnnTest, PassesTheCheckThatOursPass) {
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    for (const Mask mask : {Mask::none, Mask::causal}) {
      for (const std::int64_t d : {64, 128, 256}) {
        expect_exact(*cudnn_, problem(2, 4, 4, 500, 500, d, dtype, mask), {.lse = false});
        expect_exact(*cudnn_, problem(1, 4, 2, 300, 700, d, dtype, mask), {.lse = false});
      }
    }
  }
}

TEST_F(CudnnTest, WritesTheLogSumExp) {
  expect_exact(*cudnn_, problem(1, 4, 4, 256, 256, 64, Dtype::bf16, Mask::none));
}

TEST_F(CudnnTest, SaysItsVersionAndHasNoModel) {
  Device& device = *backend().device;
  const Problem p = problem(1, 2, 2, 128, 128, 64, Dtype::bf16, Mask::none);
  EXPECT_FALSE(cudnn_->model(p, device.info()));
  EXPECT_EQ(cudnn_->kind(), Kind::library);
  const TestTensor q(Layout::contiguous, p.dtype, 1, 128, 2, 64);
  const TestTensor o(Layout::contiguous, p.dtype, 1, 128, 2, 64);
  DeviceArray<std::uint8_t> workspace(
      static_cast<std::size_t>(cudnn_->workspace_bytes(p, device.info())));
  const Operands operands{q.view(), q.view(), q.view(), o.view(), nullptr};
  EXPECT_TRUE(cudnn_->plan(p, operands, workspace.data(), device).choices.contains("version"));
}

TEST_F(CudnnTest, RefusesWhatItCannotDo) {
  const DeviceInfo& device = backend().device->info();
  EXPECT_TRUE(cudnn_->unsupported(problem(1, 1, 1, 4, 4, 64, Dtype::f32, Mask::none), device));
  EXPECT_TRUE(cudnn_->unsupported(problem(1, 1, 1, 4, 4, 264, Dtype::f16, Mask::none), device));
  // More queries than keys under the causal mask: cuDNN gives the reason.
  EXPECT_TRUE(cudnn_->unsupported(problem(1, 1, 1, 300, 5, 64, Dtype::f16, Mask::causal), device));
}

}  // namespace
}  // namespace flashbench
