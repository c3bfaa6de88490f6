#include "kernels/harness/cuda_references.h"

#include <algorithm>
#include <utility>

#include "arena.h"
#include "kernels/common/cublas_check.h"
#include "kernels/harness/reference_kernels.h"

namespace flashbench {
namespace {

constexpr std::int64_t kGranule = std::int64_t{64} << 10;  // what read and write go through at once
constexpr std::int64_t kCublasWorkspace = std::int64_t{64} << 20;

/// Large enough that what lingers in the cache of a write, and is not in its time, is under 2 %.
std::int64_t stream_bytes(const Device& device) {
  const std::int64_t wanted =
      std::max<std::int64_t>(64 * device.info().l2_bytes, std::int64_t{256} << 20);
  return std::min(wanted, device.free_bytes() / 8) / kGranule * kGranule;
}

/// Rows of the square products: near a device's best, and a few milliseconds.
int product_size(const DeviceInfo& info, cudaDataType type) {
  if (type == CUDA_R_32F) return 4096;
  return info.sm_count >= 64 ? 8192 : 4096;
}

class CudaReferenceBench final : public ReferenceBench {
 public:
  CudaReferenceBench(Device& device, std::span<const Dtype> dtypes)
      : device_(device), arena_(device), stream_(static_cast<cudaStream_t>(device.stream())) {
    try {
      add_bandwidths();
      add_pipes();
      CUDA_CHECK(cublasCreate(&cublas_));
      CUDA_CHECK(cublasSetStream(cublas_, stream_));
      CUDA_CHECK(cublasSetWorkspace(cublas_, keep(kCublasWorkspace), kCublasWorkspace));
      for (const Dtype dtype : dtypes) add_products(dtype);
    } catch (...) {
      release();
      throw;
    }
  }
  ~CudaReferenceBench() override { release(); }

  const std::vector<ReferenceWork>& works() const override { return works_; }

 private:
  void release() noexcept {
    if (cublas_ != nullptr) cublasDestroy(cublas_);
  }

  void* keep(std::int64_t bytes) {
    buffers_.push_back(arena_.allocate(bytes));
    return buffers_.back().data();
  }

  void add_bandwidths() {
    const std::int64_t size = stream_bytes(device_);
    const auto bytes = static_cast<std::size_t>(size);
    void* from = keep(size);
    void* to = keep(size);
    sink_ = static_cast<std::uint32_t*>(keep(sizeof(std::uint32_t)));
    launch_fill_normal(from, Dtype::f32, bytes / sizeof(float), 1, stream_);
    std::uint32_t* sink = sink_;
    const double once = static_cast<double>(bytes);
    // The driver's own copy is the fastest that there is: 4.3 TB/s on an H200, a plain kernel of
    // 16-byte words 3.9 to 4.2.
    works_.push_back({Reference::copy, 2 * once, [=, stream = stream_](Stream) {
                        CUDA_CHECK(
                            cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
                      }});
    works_.push_back({Reference::read, once, [=, stream = stream_](Stream) {
                        launch_reference_read(from, bytes, sink, stream);
                      }});
    works_.push_back({Reference::write, once, [=, stream = stream_](Stream) {
                        launch_reference_write(to, bytes, stream);
                      }});
  }

  void add_pipes() {
    const int sms = device_.info().sm_count;
    std::uint32_t* sink = sink_;
    works_.push_back({Reference::fma_f32, 2 * launch_reference_fma(sms, sink, stream_),
                      [=, stream = stream_](Stream) { launch_reference_fma(sms, sink, stream); }});
    works_.push_back({Reference::exp2, launch_reference_exp2(sms, sink, stream_),
                      [=, stream = stream_](Stream) { launch_reference_exp2(sms, sink, stream); }});
  }

  void add_products(Dtype dtype) {
    switch (dtype) {
      case Dtype::bf16:
        add_product(Reference::matrix_bf16, dtype, CUDA_R_16BF, CUBLAS_COMPUTE_32F);
        break;
      case Dtype::f16:
        add_product(Reference::matrix_f16, dtype, CUDA_R_16F, CUBLAS_COMPUTE_32F);
        break;
      case Dtype::f32:
        add_product(Reference::matrix_f32, dtype, CUDA_R_32F, CUBLAS_COMPUTE_32F_PEDANTIC);
        if (device_.info().compute_capability >= 80) {
          add_product(Reference::matrix_tf32, dtype, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32);
        }
        break;
    }
  }

  void add_product(Reference what, Dtype dtype, cudaDataType type, cublasComputeType_t compute) {
    if (dtype == Dtype::bf16 && device_.info().compute_capability < 80) return;
    const int n = product_size(device_.info(), type);
    const std::int64_t elements = std::int64_t{n} * n;
    void* a = keep(elements * size_of(dtype));
    void* b = keep(elements * size_of(dtype));
    void* c = keep(elements * size_of(dtype));
    launch_fill_normal(a, dtype, static_cast<std::size_t>(elements), 2, stream_);
    launch_fill_normal(b, dtype, static_cast<std::size_t>(elements), 3, stream_);
    const double flops = 2.0 * n * static_cast<double>(elements);
    works_.push_back({what, flops, [=, cublas = cublas_](Stream) {
                        const float one = 1;
                        const float zero = 0;
                        CUDA_CHECK(cublasGemmEx(cublas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a,
                                                type, n, b, type, n, &zero, c, type, n, compute,
                                                CUBLAS_GEMM_DEFAULT));
                      }});
  }

  Device& device_;
  Arena arena_;
  cudaStream_t stream_;
  std::vector<Buffer> buffers_;
  std::uint32_t* sink_ = nullptr;
  cublasHandle_t cublas_ = nullptr;
  std::vector<ReferenceWork> works_;
};

}  // namespace

std::unique_ptr<ReferenceBench> make_cuda_reference_bench(Device& device,
                                                          std::span<const Dtype> dtypes) {
  return std::make_unique<CudaReferenceBench>(device, dtypes);
}

}  // namespace flashbench
