#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "device.h"

namespace flashbench {

/// The host as a device: its memory, all the cores of cpu_threads(), the steady clock. Work has
/// finished when the call that enqueued it returns; stream() is null.
class CpuDevice : public Device {
 public:
  /// `runtime`: the library that computes on it, for DeviceInfo ("OpenBLAS 0.3.21 SkylakeX").
  explicit CpuDevice(std::string runtime);
  ~CpuDevice() override;

  const DeviceInfo& info() const override { return info_; }

  /// 4096-byte aligned, on huge pages where the system has them, and present: no page fault is left
  /// for the timed work. Throws OutOfMemory, without having tried, when `bytes` exceeds
  /// free_bytes().
  void* allocate(std::int64_t bytes) override;
  void deallocate(void* data) noexcept override;
  /// available_memory() less a reserve for the process itself (a sixteenth of the memory, at most
  /// 512 MiB).
  std::int64_t free_bytes() const override;

  void download(void* host, const void* device, std::int64_t bytes) override;
  void upload(void* device, const void* host, std::int64_t bytes) override;
  void copy(void* to, const void* from, std::int64_t bytes) override;
  void fill_bytes(void* device, std::uint8_t value, std::int64_t bytes) override;

  Stream stream() const override { return nullptr; }
  void synchronize() override {}

  Sample time(const Enqueue& enqueue, CacheState cache) override;
  /// Reads twice the last-level cache, at most 384 MiB: where many cores share a larger cache, part
  /// of it may keep old lines, but each core's own caches do not.
  void flush_cache() override;

 private:
  DeviceInfo info_;
  std::mutex mutex_;
  std::unordered_map<void*, std::int64_t> mapped_bytes_;
  void* flush_buffer_ = nullptr;  // allocated by the first flush
  std::int64_t flush_bytes_ = 0;
};

}  // namespace flashbench
