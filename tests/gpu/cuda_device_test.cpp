#include "kernels/harness/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "error.h"
#include "statistics.h"

namespace flashbench {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

class DeviceBuffer {
 public:
  DeviceBuffer(Device& device, std::int64_t bytes)
      : device_(device), data_(device.allocate(bytes)) {}
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() { device_.deallocate(data_); }
  void* data() const { return data_; }

 private:
  Device& device_;
  void* data_;
};

double median_seconds(CudaDevice& device, const Enqueue& work, CacheState cache) {
  std::vector<double> times;
  for (int i = 0; i < 15; ++i) times.push_back(device.time(work, cache).seconds);
  return median(times);
}

TEST(CudaDeviceTest, DescribesTheDevice) {
  const CudaDevice device;
  const DeviceInfo& info = device.info();
  EXPECT_EQ(info.kind, DeviceKind::cuda);
  EXPECT_FALSE(info.name.empty());
  EXPECT_THAT(info.uuid,
              testing::MatchesRegex("GPU-[0-9a-f]+-[0-9a-f]+-[0-9a-f]+-[0-9a-f]+-[0-9a-f]+"));
  EXPECT_EQ(info.uuid.size(), 40U);
  EXPECT_GT(info.memory_bytes, 100 * kMiB);
  EXPECT_GT(info.l2_bytes, kMiB / 4);
  EXPECT_GT(info.sm_count, 0);
  EXPECT_GE(info.compute_capability, 75);
  EXPECT_GE(info.shared_memory_per_block, 48 << 10);
  EXPECT_GT(info.max_clock_hz, 0.5e9);
  EXPECT_LT(info.max_clock_hz, 5e9);
  EXPECT_GT(info.memory_peak_bytes_per_s, 1e11);
  EXPECT_LT(info.memory_peak_bytes_per_s, 2e13);
  EXPECT_FALSE(info.driver.empty());
  EXPECT_FALSE(info.runtime.empty());
  EXPECT_GT(device.free_bytes(), 0);
  EXPECT_LT(device.free_bytes(), info.memory_bytes);
}

TEST(CudaDeviceTest, MovesBytes) {
  CudaDevice device;
  std::vector<std::uint8_t> host(3 * 1000 * 1000 + 7);
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<std::uint8_t>(i * 31 + 5);
  const auto bytes = static_cast<std::int64_t>(host.size());
  const DeviceBuffer a(device, bytes);
  const DeviceBuffer b(device, bytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data()) % 256, 0U);
  device.upload(a.data(), host.data(), bytes);
  device.fill_bytes(b.data(), 0xff, bytes);
  device.copy(b.data(), a.data(), bytes - 1);
  std::vector<std::uint8_t> back(host.size());
  device.download(back.data(), b.data(), bytes);
  host.back() = 0xff;
  EXPECT_EQ(back, host);
}

TEST(CudaDeviceTest, RefusedAllocationIsCaughtAndForgotten) {
  CudaDevice device;
  const std::int64_t needed = device.info().memory_bytes + kMiB;
  try {
    device.allocate(needed);
    FAIL() << "more than the device has was allocated";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.needed_bytes, needed);
    EXPECT_GT(error.free_bytes, 0);
    EXPECT_LT(error.free_bytes, needed);
  }
  EXPECT_NO_THROW(device.synchronize()) << "no error may stay behind";
  const DeviceBuffer after(device, kMiB);
  EXPECT_NE(after.data(), nullptr);
}

TEST(CudaDeviceTest, FreeBytesFollowAllocations) {
  CudaDevice device;
  const std::int64_t before = device.free_bytes();
  {
    const DeviceBuffer buffer(device, 64 * kMiB);
    EXPECT_LE(device.free_bytes(), before - 64 * kMiB);
  }
  EXPECT_EQ(device.free_bytes(), before);
}

TEST(CudaDeviceTest, EmptyLaunchIsShortAndSteady) {
  CudaDevice device;
  const Enqueue nothing = [&device](Stream) { device.launch_nothing(); };
  device.time(nothing, CacheState::warm);
  EXPECT_LT(median_seconds(device, nothing, CacheState::warm), 15e-6);
  EXPECT_LT(median_seconds(device, nothing, CacheState::cold), 15e-6);
}

TEST(CudaDeviceTest, HostTimeIsNotInTheSample) {
  CudaDevice device;
  const Enqueue slow_host = [&device](Stream) {
    device.launch_nothing();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    device.launch_nothing();
  };
  device.time(slow_host, CacheState::warm);
  const Sample sample = device.time(slow_host, CacheState::warm);
  EXPECT_TRUE(device.gate_held());
  EXPECT_LT(sample.seconds, 100e-6);
}

TEST(CudaDeviceTest, ManyLaunchesCostWhatTheDeviceNeeds) {
  CudaDevice device;
  const auto launches = [&device](int count) -> Enqueue {
    return [&device, count](Stream) {
      for (int i = 0; i < count; ++i) device.launch_nothing();
    };
  };
  device.time(launches(1), CacheState::warm);
  const double one = median_seconds(device, launches(1), CacheState::warm);
  const double hundred = median_seconds(device, launches(100), CacheState::warm);
  EXPECT_TRUE(device.gate_held());
  EXPECT_LT((hundred - one) / 99, 3e-6) << "a launch, without the host's share";
}

TEST(CudaDeviceTest, WorkThatWaitsForItsStreamDoesNotDeadlock) {
  CudaDevice device;
  const Enqueue waits = [&device](Stream) {
    device.launch_nothing();
    device.synchronize();
  };
  const Sample sample = device.time(waits, CacheState::warm);
  EXPECT_FALSE(device.gate_held());
  EXPECT_LT(sample.seconds, 0.1);
  device.time([&device](Stream) { device.launch_nothing(); }, CacheState::warm);
  EXPECT_TRUE(device.gate_held());
}

TEST(CudaDeviceTest, WorkThatThrowsLeavesTheDeviceUsable) {
  CudaDevice device;
  const Enqueue throws = [&device](Stream) {
    device.launch_nothing();
    throw UsageError("no");
  };
  EXPECT_THROW(device.time(throws, CacheState::cold), UsageError);
  const Enqueue nothing = [&device](Stream) { device.launch_nothing(); };
  EXPECT_LT(device.time(nothing, CacheState::cold).seconds, 1e-3);
}

TEST(CudaDeviceTest, ClockIsPlausible) {
  CudaDevice device;
  const Sample sample =
      device.time([&device](Stream) { device.launch_nothing(); }, CacheState::warm);
  ASSERT_TRUE(sample.sm_clock_hz);
  EXPECT_GT(*sample.sm_clock_hz, 0.1e9);
  EXPECT_LT(*sample.sm_clock_hz, 1.02 * device.info().max_clock_hz);
}

TEST(CudaDeviceTest, ColdReadsComeFromMemoryAndWarmOnesFromTheCache) {
  CudaDevice device;
  const std::int64_t bytes = device.info().l2_bytes / 4 / 256 * 256;
  const DeviceBuffer buffer(device, bytes + 256);
  device.fill_bytes(buffer.data(), 0x3c, bytes);
  auto* sink = reinterpret_cast<std::uint32_t*>(static_cast<char*>(buffer.data()) + bytes);
  const Enqueue read = [&](Stream stream) {
    launch_read(buffer.data(), static_cast<std::size_t>(bytes), sink,
                static_cast<cudaStream_t>(stream));
  };
  device.time(read, CacheState::warm);
  const double warm = median_seconds(device, read, CacheState::warm);
  const double cold = median_seconds(device, read, CacheState::cold);
  EXPECT_GT(cold, 1.25 * warm);
  EXPECT_LT(static_cast<double>(bytes) / cold, device.info().memory_peak_bytes_per_s)
      << "faster than memory can be: the cache was not flushed";
}

TEST(CudaDeviceTest, BandwidthIsBelowTheDataSheet) {
  CudaDevice device;
  const std::int64_t bytes = 16 * device.info().l2_bytes / 256 * 256;
  const DeviceBuffer buffer(device, bytes + 256);
  device.fill_bytes(buffer.data(), 0x3c, bytes);
  auto* sink = reinterpret_cast<std::uint32_t*>(static_cast<char*>(buffer.data()) + bytes);
  const Enqueue read = [&](Stream stream) {
    launch_read(buffer.data(), static_cast<std::size_t>(bytes), sink,
                static_cast<cudaStream_t>(stream));
  };
  const double rate = static_cast<double>(bytes) / median_seconds(device, read, CacheState::cold);
  EXPECT_LT(rate, device.info().memory_peak_bytes_per_s);
  EXPECT_GT(rate, 0.5 * device.info().memory_peak_bytes_per_s);
}

/// In a process of its own, which the fault ruins: reads an address that belongs to nobody.
void lose_the_device(bool through_time) {
  CudaDevice device;
  const Enqueue fault = [](Stream stream) {
    launch_read(reinterpret_cast<void*>(std::uintptr_t{256}), 4096, nullptr,
                static_cast<cudaStream_t>(stream));
  };
  try {
    if (through_time) {
      device.time(fault, CacheState::cold);
    } else {
      fault(device.stream());
      device.synchronize();
    }
  } catch (const DeviceLost&) {
    bool still_lost = false;
    try {
      device.deallocate(device.allocate(256));
    } catch (const DeviceLost&) {
      still_lost = true;
    }
    std::_Exit(still_lost ? 42 : 2);
  } catch (...) {
    std::_Exit(3);
  }
  std::_Exit(1);
}

TEST(CudaDeviceDeathTest, AFaultMeansALostDevice) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(lose_the_device(false), testing::ExitedWithCode(42), "");
  EXPECT_EXIT(lose_the_device(true), testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace flashbench
