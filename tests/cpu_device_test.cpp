#include "cpu_device.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "error.h"
#include "parallel.h"

namespace flashbench {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20U;

/// Pages of [data, data + bytes) that are in memory.
std::int64_t resident_pages(void* data, std::int64_t bytes) {
  std::vector<unsigned char> pages(static_cast<std::size_t>((bytes + 4095) / 4096));
  if (mincore(data, static_cast<std::size_t>(bytes), pages.data()) != 0) return -1;
  return std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return page & 1U; });
}

TEST(CpuDeviceTest, DescribesTheHost) {
  const CpuDevice device("BLAS 1.0");
  const DeviceInfo& info = device.info();
  EXPECT_EQ(info.kind, DeviceKind::cpu);
  EXPECT_FALSE(info.name.empty());
  EXPECT_EQ(info.runtime, "BLAS 1.0");
  EXPECT_EQ(info.sm_count, cpu_threads());
  EXPECT_GT(info.memory_bytes, 64 * kMiB);
  EXPECT_GE(info.l2_bytes, 0);
  EXPECT_EQ(info.compute_capability, 0);
  EXPECT_GT(device.free_bytes(), 0);
  EXPECT_LE(device.free_bytes(), info.memory_bytes);
  EXPECT_EQ(device.stream(), nullptr);
}

TEST(CpuDeviceTest, MemoryIsAlignedPresentAndWritable) {
  CpuDevice device("");
  for (const std::int64_t bytes :
       {std::int64_t{1}, std::int64_t{4097}, 2 * kMiB - 1, 2 * kMiB, 5 * kMiB + 3}) {
    auto* data = static_cast<char*>(device.allocate(bytes));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 256, 0U);
    EXPECT_EQ(resident_pages(data, bytes), (bytes + 4095) / 4096) << bytes;
    data[0] = 1;
    data[bytes - 1] = 2;
    device.deallocate(data);
  }
}

TEST(CpuDeviceTest, FreedMemoryGoesBack) {
  CpuDevice device("");
  void* data = device.allocate(3 * kMiB);
  device.deallocate(data);
  std::vector<unsigned char> pages(1);
  EXPECT_EQ(mincore(data, 4096, pages.data()), -1) << "still mapped";
  device.deallocate(nullptr);
}

TEST(CpuDeviceTest, RefusesWhatDoesNotFit) {
  CpuDevice device("");
  for (const std::int64_t bytes : {device.info().memory_bytes, std::int64_t{1} << 50U, INT64_MAX}) {
    try {
      device.allocate(bytes);
      FAIL() << bytes;
    } catch (const OutOfMemory& error) {
      EXPECT_EQ(error.needed_bytes, bytes);
      EXPECT_GT(error.free_bytes, 0);
      EXPECT_LT(error.free_bytes, bytes);
    }
  }
  EXPECT_THROW(device.allocate(0), Error);
  EXPECT_THROW(device.allocate(-1), Error);
  device.deallocate(device.allocate(kMiB));  // and goes on
}

TEST(CpuDeviceTest, CopiesAndFills) {
  CpuDevice device("");
  const std::int64_t bytes = 20 * kMiB + 5;  // several pieces and a rest
  std::vector<unsigned char> host(static_cast<std::size_t>(bytes));
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<unsigned char>(i * 7 / 3);
  void* one = device.allocate(bytes);
  void* two = device.allocate(bytes);
  device.upload(one, host.data(), bytes);
  device.copy(two, one, bytes);
  device.fill_bytes(one, 0xab, bytes - 1);
  std::vector<unsigned char> back(host.size());
  device.download(back.data(), two, bytes);
  EXPECT_EQ(back, host);
  device.download(back.data(), one, bytes);
  EXPECT_EQ(std::count(back.begin(), back.end() - 1, 0xab), bytes - 1);
  EXPECT_EQ(back.back(), host.back());
  device.copy(one, two, 0);
  device.deallocate(one);
  device.deallocate(two);
}

TEST(CpuDeviceTest, TimesTheWork) {
  CpuDevice device("");
  int runs = 0;
  const Sample sample = device.time(
      [&](Stream stream) {
        EXPECT_EQ(stream, nullptr);
        ++runs;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      },
      CacheState::warm);
  EXPECT_EQ(runs, 1);
  EXPECT_GE(sample.seconds, 0.02);
  EXPECT_EQ(sample.sm_clock_hz, std::nullopt);
  EXPECT_THROW(device.time([](Stream) { throw Error("failed"); }, CacheState::warm), Error);
}

TEST(CpuDeviceTest, TheFlushIsNotTimed) {
  CpuDevice device("");
  device.flush_cache();  // the first allocates
  double flush = 1e9;
  double timed = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    device.flush_cache();
    flush = std::min(
        flush, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    timed = std::min(timed, device.time([](Stream) {}, CacheState::cold).seconds);
  }
  EXPECT_LT(timed, flush / 10);
}

TEST(CpuDeviceTest, AColdCacheIsColderThanAWarmOne) {
  CpuDevice device("");
  // Lines visited in an order that no prefetcher follows; few enough for a core's own cache.
  constexpr std::size_t kLines = 4096;
  auto* words = static_cast<std::uint64_t*>(device.allocate(kLines * 64));
  for (std::size_t i = 0; i < kLines; ++i) words[i * 8] = (i * 1237 + 1) % kLines;  // a full cycle
  const auto walk = [&](Stream) {
    std::uint64_t at = 0;
    for (std::size_t i = 0; i < kLines; ++i) at = words[at * 8];
    EXPECT_EQ(at, 0U);
  };
  double cold = 1e9;
  double warm = 1e9;
  for (int i = 0; i < 9; ++i) {
    cold = std::min(cold, device.time(walk, CacheState::cold).seconds);
    warm = std::min(warm, device.time(walk, CacheState::warm).seconds);
  }
  EXPECT_GT(cold, 2 * warm);
  device.deallocate(words);
}

}  // namespace
}  // namespace flashbench
