#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "device.h"
#include "kernels/harness/launches.h"
#include "kernels/harness/nvml.h"

namespace flashbench {

/// The CUDA device that is current when this is made, through the runtime API alone: linking it
/// needs no driver, and without one the constructor says so.
///
/// A cold sample starts with the last-level cache full of clean lines that belong to nobody: the
/// flush reads a buffer of the harness several times the cache's size. Writing it would evict as
/// well, but leave the cache full of dirty lines whose write-back the sample would pay for. The
/// lines that the previous work left dirty are written back by the flush, outside the sample.
class CudaDevice final : public Device {
 public:
  /// Throws Error where there is no usable device, with the reason.
  CudaDevice();
  ~CudaDevice() override;

  const DeviceInfo& info() const override { return info_; }
  void* allocate(std::int64_t bytes) override;
  void deallocate(void* data) noexcept override;
  std::int64_t free_bytes() const override;
  void download(void* host, const void* device, std::int64_t bytes) override;
  void upload(void* device, const void* host, std::int64_t bytes) override;
  void copy(void* to, const void* from, std::int64_t bytes) override;
  void fill_bytes(void* device, std::uint8_t value, std::int64_t bytes) override;
  Stream stream() const override { return stream_; }
  void synchronize() override;

  /// flush (if cold) -> gate -> event -> work -> event -> clock probe. The gate keeps the device
  /// busy until the last launch of the work is queued, so that launch overhead on the host is not
  /// in the sample; the clock is the mean of what the SMs show just before and just after.
  Sample time(const Enqueue& enqueue, CacheState cache) override;
  void flush_cache() override;
  void launch_nothing() override;
  std::optional<DeviceState> state() const override;
  void profiler_start() override;
  void profiler_stop() override;

  /// Of the last sample, for tests: did the gate hold until all its work was queued?
  bool gate_held() const { return page_->timed_out == 0; }
  ClockReading clock_before() const { return page_->before; }
  ClockReading clock_after() const { return page_->after; }

 private:
  void release() noexcept;

  DeviceInfo info_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  GatePage* page_ = nullptr;  // mapped: the same address on the host and the device
  std::uint32_t ticket_ = 0;
  void* flush_buffer_ = nullptr;
  std::size_t flush_bytes_ = 0;
  mutable std::unique_ptr<Nvml> nvml_;  // loaded when it is first asked
};

std::unique_ptr<Device> make_cuda_device();

}  // namespace flashbench
