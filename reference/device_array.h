#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/common/cuda_check.h"

namespace flashbench {

/// `size` elements of device memory that the oracle works in. The harness counts only what
/// implementations use, so this does not come from its arena.
template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(std::size_t size) : size_(size) {
    if (size > 0) CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&data_), size * sizeof(T)));
  }
  DeviceArray(std::span<const T> values, cudaStream_t stream) : DeviceArray(values.size()) {
    CUDA_CHECK(
        cudaMemcpyAsync(data_, values.data(), values.size_bytes(), cudaMemcpyHostToDevice, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }

  /// At least `size` elements; what was there is lost where it had fewer.
  void reserve(std::size_t size) {
    if (size <= size_) return;
    cudaFree(data_);
    data_ = nullptr;
    size_ = 0;
    CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&data_), size * sizeof(T)));
    size_ = size;
  }

  T* data() const { return data_; }
  std::size_t size() const { return size_; }

  void zero(cudaStream_t stream) {
    CUDA_CHECK(cudaMemsetAsync(data_, 0, size_ * sizeof(T), stream));
  }
  /// The first `count` elements, after all work of `stream`.
  void download(T* to, std::size_t count, cudaStream_t stream) const {
    CUDA_CHECK(cudaMemcpyAsync(to, data_, count * sizeof(T), cudaMemcpyDeviceToHost, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
  }
  std::vector<T> download(cudaStream_t stream) const {
    std::vector<T> values(size_);
    download(values.data(), size_, stream);
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace flashbench
