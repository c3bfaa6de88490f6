#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flashbench {

enum class DeviceKind : std::uint8_t { cpu, cuda };
std::string_view to_string(DeviceKind kind);

/// cold: the last-level cache is overwritten before each sample; warm: back to back.
enum class CacheState : std::uint8_t { cold, warm };
std::string_view to_string(CacheState state);

/// What is known of a device. Zero or empty where it does not apply or cannot be read.
struct DeviceInfo {
  DeviceKind kind = DeviceKind::cpu;
  std::string name;
  std::string uuid;
  std::int64_t memory_bytes = 0;
  std::int64_t l2_bytes = 0;                 ///< last-level cache
  int sm_count = 0;                          ///< multiprocessors, or CPU threads used
  int compute_capability = 0;                ///< 90 for sm_90; 0 on a CPU
  std::int64_t shared_memory_per_block = 0;  ///< opt-in maximum, bytes
  double max_clock_hz = 0;                   ///< maximum SM clock
  double memory_peak_bytes_per_s = 0;        ///< data-sheet rate: memory clock x bus width
  bool ecc = false;
  std::string driver;   ///< "13.0"
  std::string runtime;  ///< CUDA runtime version, or the BLAS in use on a CPU
};

/// How the device is doing at the moment. Absent where it cannot be read.
struct DeviceState {
  std::optional<double> power_w;
  std::optional<double> power_limit_w;
  std::optional<double> temperature_c;
  std::optional<double> sm_clock_hz;  ///< as its driver reports it, now and then
  /// Why the clock is under its maximum: "power_cap", "thermal"...; empty where nothing holds it.
  std::optional<std::vector<std::string>> throttle_reasons;
};

/// cudaStream_t on CUDA, null on the CPU.
using Stream = void*;
/// Enqueues work on a stream; on the CPU it has finished when the call returns.
using Enqueue = std::function<void(Stream)>;

struct Sample {
  double seconds = 0;                 ///< device time between the two events round the work
  std::optional<double> sm_clock_hz;  ///< observed just before the work
};

/// A device as the harness sees it: memory, one stream, a clock. Calls throw Error; after
/// DeviceLost nothing more can be expected of it in this process.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;

  /// At least 256-byte aligned. Throws OutOfMemory. Called by Arena alone.
  virtual void* allocate(std::int64_t bytes) = 0;
  virtual void deallocate(void* data) noexcept = 0;
  /// What the driver (or the operating system) says is free now.
  virtual std::int64_t free_bytes() const = 0;

  virtual void download(void* host, const void* device, std::int64_t bytes) = 0;
  virtual void upload(void* device, const void* host, std::int64_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::int64_t bytes) = 0;
  virtual void fill_bytes(void* device, std::uint8_t value, std::int64_t bytes) = 0;

  virtual Stream stream() const = 0;
  /// Waits for the stream; throws what its launches ran into.
  virtual void synchronize() = 0;

  /// Times one execution of `enqueue`, its launch overhead excluded as far as the device allows.
  virtual Sample time(const Enqueue& enqueue, CacheState cache) = 0;
  /// Evicts the last-level cache (enqueued on the stream).
  virtual void flush_cache() = 0;
  /// Enqueues a launch that does nothing: timed like any work, it is what no work can be told from.
  virtual void launch_nothing() {}

  /// Nothing where no such readings are to be had.
  virtual std::optional<DeviceState> state() const { return std::nullopt; }

  /// cudaProfilerStart and cudaProfilerStop; nothing on the CPU.
  virtual void profiler_start() {}
  virtual void profiler_stop() {}
};

}  // namespace flashbench
