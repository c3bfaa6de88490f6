#include "kernels/harness/cuda_device.h"

#include <cuda_profiler_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "error.h"
#include "kernels/common/cuda_check.h"

namespace flashbench {
namespace {

/// How many times its size must be read until nothing else is left in the cache. It replaces by no
/// strict order: on an H200 one reading leaves a quarter of 32 MiB of dirty lines behind, two leave
/// 0.4 %, three and more nothing (counted by its DRAM counters).
constexpr std::size_t kFlushFactor = 4;
constexpr std::size_t kSmallestFlush = std::size_t{32} << 20;
/// No pattern of repeated words sums to read_all's impossible number.
constexpr int kFlushByte = 0x5b;

std::string version_string(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string uuid_string(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

double attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  CUDA_CHECK(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

int current_device() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (error == cudaErrorInsufficientDriver) {
    int driver = 0;
    cudaDriverGetVersion(&driver);
    if (driver == 0) throw Error("no CUDA device: no NVIDIA driver is loaded on this machine");
    throw Error(
        fmt::format("no CUDA device: the driver supports CUDA {} and this program needs {}; "
                    "install a newer driver",
                    version_string(driver), version_string(CUDART_VERSION)));
  }
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) {
    throw Error("no CUDA device: the driver sees none (is CUDA_VISIBLE_DEVICES empty?)");
  }
  if (error != cudaSuccess) {
    throw Error(
        fmt::format("no CUDA device: {} ({})", cudaGetErrorName(error), cudaGetErrorString(error)));
  }
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  return device;
}

DeviceInfo describe(int device) {
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  int driver = 0;
  int runtime = 0;
  CUDA_CHECK(cudaDriverGetVersion(&driver));
  CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  DeviceInfo info;
  info.kind = DeviceKind::cuda;
  info.name = properties.name;
  info.uuid = uuid_string(properties.uuid);
  info.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  info.l2_bytes = properties.l2CacheSize;
  info.sm_count = properties.multiProcessorCount;
  info.compute_capability = properties.major * 10 + properties.minor;
  info.shared_memory_per_block = static_cast<std::int64_t>(properties.sharedMemPerBlockOptin);
  // CUDA 13 has no clocks in cudaDeviceProp any more; the attributes are in kHz.
  info.max_clock_hz = 1e3 * attribute(cudaDevAttrClockRate, device);
  info.memory_peak_bytes_per_s = 2 * 1e3 * attribute(cudaDevAttrMemoryClockRate, device) *
                                 attribute(cudaDevAttrGlobalMemoryBusWidth, device) / 8;
  info.ecc = properties.ECCEnabled != 0;
  info.driver = version_string(driver);
  info.runtime = version_string(runtime);
  return info;
}

double hertz(const ClockReading& reading) {
  return 1e9 * static_cast<double>(reading.cycles) / static_cast<double>(reading.nanoseconds);
}

/// Opens the gate even if the work throws half-way.
class GateOpener {
 public:
  GateOpener(GatePage* page, std::uint32_t ticket) : page_(page), ticket_(ticket) {}
  GateOpener(const GateOpener&) = delete;
  GateOpener& operator=(const GateOpener&) = delete;
  ~GateOpener() { std::atomic_ref(page_->open).store(ticket_, std::memory_order_release); }

 private:
  GatePage* page_;
  std::uint32_t ticket_;
};

}  // namespace

CudaDevice::CudaDevice() {
  const int device = current_device();
  CUDA_CHECK(cudaSetDevice(device));
  info_ = describe(device);
  flush_bytes_ = std::max(kFlushFactor * static_cast<std::size_t>(info_.l2_bytes), kSmallestFlush);
  try {
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    CUDA_CHECK(cudaEventCreate(&begin_));
    CUDA_CHECK(cudaEventCreate(&end_));
    CUDA_CHECK(cudaHostAlloc(reinterpret_cast<void**>(&page_), sizeof(GatePage),
                             cudaHostAllocMapped | cudaHostAllocPortable));
    *page_ = {};
    flush_buffer_ = allocate(static_cast<std::int64_t>(flush_bytes_ + 256));  // the sink behind it
    fill_bytes(flush_buffer_, kFlushByte, static_cast<std::int64_t>(flush_bytes_));
  } catch (...) {
    release();
    throw;
  }
}

CudaDevice::~CudaDevice() {
  release();
}

void CudaDevice::release() noexcept {
  // Errors mean a lost device, which was reported when it happened.
  if (flush_buffer_ != nullptr) cudaFree(flush_buffer_);
  if (page_ != nullptr) cudaFreeHost(page_);
  if (end_ != nullptr) cudaEventDestroy(end_);
  if (begin_ != nullptr) cudaEventDestroy(begin_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

void* CudaDevice::allocate(std::int64_t bytes) {
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, static_cast<std::size_t>(bytes));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    const std::int64_t free = free_bytes();
    throw OutOfMemory(fmt::format("the device refused {} bytes with {} bytes free", bytes, free),
                      bytes, free);
  }
  CUDA_CHECK(error);
  return data;
}

void CudaDevice::deallocate(void* data) noexcept {
  // cudaFree reports faults of earlier launches; synchronize() has thrown those, or will.
  if (cudaFree(data) != cudaSuccess) cudaGetLastError();
}

std::int64_t CudaDevice::free_bytes() const {
  std::size_t free = 0;
  std::size_t total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return static_cast<std::int64_t>(free);
}

void CudaDevice::download(void* host, const void* device, std::int64_t bytes) {
  CUDA_CHECK(cudaMemcpyAsync(host, device, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost,
                             stream_));
  synchronize();
}

void CudaDevice::upload(void* device, const void* host, std::int64_t bytes) {
  CUDA_CHECK(cudaMemcpyAsync(device, host, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice,
                             stream_));
  synchronize();
}

void CudaDevice::copy(void* to, const void* from, std::int64_t bytes) {
  CUDA_CHECK(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice,
                             stream_));
  synchronize();
}

void CudaDevice::fill_bytes(void* device, std::uint8_t value, std::int64_t bytes) {
  CUDA_CHECK(cudaMemsetAsync(device, value, static_cast<std::size_t>(bytes), stream_));
  synchronize();
}

void CudaDevice::synchronize() {
  CUDA_CHECK(cudaGetLastError());  // a launch that its owner did not check
  CUDA_CHECK(cudaStreamSynchronize(stream_));
}

Sample CudaDevice::time(const Enqueue& enqueue, CacheState cache) {
  if (cache == CacheState::cold) flush_cache();
  ++ticket_;
  launch_gate(page_, ticket_, stream_);
  {
    const GateOpener opener(page_, ticket_);
    CUDA_CHECK(cudaEventRecord(begin_, stream_));
    enqueue(stream_);
    CUDA_CHECK(cudaEventRecord(end_, stream_));
    launch_clock_probe(page_, stream_);
  }
  synchronize();
  float milliseconds = 0;
  CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin_, end_));
  return {1e-3 * static_cast<double>(milliseconds),
          0.5 * (hertz(page_->before) + hertz(page_->after))};
}

void CudaDevice::flush_cache() {
  auto* sink = reinterpret_cast<std::uint32_t*>(static_cast<char*>(flush_buffer_) + flush_bytes_);
  launch_read(flush_buffer_, flush_bytes_, sink, stream_);
}

void CudaDevice::launch_nothing() {
  flashbench::launch_nothing(stream_);
}

std::optional<DeviceState> CudaDevice::state() const {
  if (!nvml_) nvml_ = std::make_unique<Nvml>(info_.uuid);
  return nvml_->state();
}

void CudaDevice::profiler_start() {
  CUDA_CHECK(cudaProfilerStart());
}

void CudaDevice::profiler_stop() {
  synchronize();
  CUDA_CHECK(cudaProfilerStop());
}

std::unique_ptr<Device> make_cuda_device() {
  return std::make_unique<CudaDevice>();
}

}  // namespace flashbench
