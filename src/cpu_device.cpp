#include "cpu_device.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <system_error>
#include <utility>

#include "error.h"
#include "host_limits.h"
#include "parallel.h"

namespace flashbench {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20U;
constexpr std::int64_t kPage = 4096;
constexpr std::int64_t kHugePage = 2 * kMiB;
constexpr std::int64_t kFlushLimit = 384 * kMiB;

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  utsname system{};
  return uname(&system) == 0 ? fmt::format("{} CPU", system.machine) : "CPU";
}

/// The number at the start of `text`; 0 where there is none.
std::int64_t leading_number(const std::string& text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Bytes of the last-level caches that the CPUs of this process share in, each cache once.
std::int64_t last_level_cache_bytes() {
  namespace fs = std::filesystem;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) CPU_SET(0, &allowed);
  std::int64_t total = 0;
  std::set<std::string> counted;  // the CPUs that share a cache name it
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    std::int64_t last_level = 0;
    std::int64_t kilobytes = 0;
    std::string sharers;
    std::error_code ignored;
    const fs::path caches = fmt::format("/sys/devices/system/cpu/cpu{}/cache", cpu);
    for (const auto& entry : fs::directory_iterator(caches, ignored)) {
      const fs::path& folder = entry.path();
      if (!folder.filename().string().starts_with("index")) continue;
      if (first_line(folder / "type") == "Instruction") continue;
      const std::int64_t level = leading_number(first_line(folder / "level"));
      if (level <= last_level) continue;
      last_level = level;
      kilobytes = leading_number(first_line(folder / "size"));  // "307200K"
      sharers = first_line(folder / "shared_cpu_list");
    }
    if (counted.insert(sharers).second) total += kilobytes * 1024;
  }
  if (total == 0) total = std::max<std::int64_t>(0, sysconf(_SC_LEVEL3_CACHE_SIZE));
  return total;
}

/// Calls work(offset, size) on all cores for pieces of [0, bytes).
void for_pieces(std::int64_t bytes, const std::function<void(std::int64_t, std::int64_t)>& work) {
  constexpr std::int64_t kPiece = 8 * kMiB;
  parallel_for((bytes + kPiece - 1) / kPiece,
               [&](std::int64_t i) { work(i * kPiece, std::min(kPiece, bytes - i * kPiece)); });
}

/// Gives every page of [data, data + bytes) memory now. False where there is none.
bool populate(char* data, std::int64_t bytes) {
  std::atomic<bool> refused = false;
  for_pieces(bytes, [&](std::int64_t offset, std::int64_t size) {
    if (refused) return;
#ifdef MADV_POPULATE_WRITE
    if (madvise(data + offset, static_cast<std::size_t>(size), MADV_POPULATE_WRITE) == 0) return;
    if (errno != EINVAL) {
      refused = true;
      return;
    }
#endif
    // A kernel before 5.14: a write to each page.
    for (std::int64_t at = 0; at < size; at += kPage)
      static_cast<volatile char*>(data)[offset + at] = 0;
  });
  return !refused;
}

}  // namespace

CpuDevice::CpuDevice(std::string runtime) {
  info_.kind = DeviceKind::cpu;
  info_.name = cpu_name();
  info_.memory_bytes = total_memory();
  info_.l2_bytes = last_level_cache_bytes();
  info_.sm_count = cpu_threads();
  info_.max_clock_hz = 1e3 * static_cast<double>(leading_number(first_line(
                                 "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")));
  info_.runtime = std::move(runtime);
}

CpuDevice::~CpuDevice() {
  for (const auto& [data, bytes] : mapped_bytes_) munmap(data, static_cast<std::size_t>(bytes));
}

std::int64_t CpuDevice::free_bytes() const {
  const std::int64_t reserve = std::min(info_.memory_bytes / 16, 512 * kMiB);
  return std::max<std::int64_t>(0, available_memory() - reserve);
}

void* CpuDevice::allocate(std::int64_t bytes) {
  const std::int64_t free = free_bytes();
  if (bytes <= 0) throw Error(fmt::format("cannot allocate {} bytes", bytes));
  const auto refuse = [&]() -> OutOfMemory {
    return {fmt::format("{} bytes of memory needed, {} free", bytes, free), bytes, free};
  };
  if (bytes > free) throw refuse();
  // Room to move the start to a huge page's boundary; what is not needed goes back at once.
  const std::int64_t rounded = (bytes + kPage - 1) / kPage * kPage;
  const std::int64_t slack = rounded >= kHugePage ? kHugePage : 0;
  void* region = mmap(nullptr, static_cast<std::size_t>(rounded + slack), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (region == MAP_FAILED) throw refuse();
  char* start = static_cast<char*>(region);
  if (slack > 0) {
    const auto past =
        static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(start) % kHugePage);
    const std::int64_t before = past == 0 ? 0 : kHugePage - past;
    if (before > 0) munmap(start, static_cast<std::size_t>(before));
    start += before;
    if (slack > before) munmap(start + rounded, static_cast<std::size_t>(slack - before));
    madvise(start, static_cast<std::size_t>(rounded),
            MADV_HUGEPAGE);  // a wish: small pages do as well
  }
  if (!populate(start, rounded)) {
    munmap(start, static_cast<std::size_t>(rounded));
    throw refuse();
  }
  const std::scoped_lock lock(mutex_);
  mapped_bytes_.emplace(start, rounded);
  return start;
}

void CpuDevice::deallocate(void* data) noexcept {
  const std::scoped_lock lock(mutex_);
  const auto found = mapped_bytes_.find(data);
  if (found == mapped_bytes_.end()) return;
  munmap(data, static_cast<std::size_t>(found->second));
  mapped_bytes_.erase(found);
}

void CpuDevice::download(void* host, const void* device, std::int64_t bytes) {
  copy(host, device, bytes);
}

void CpuDevice::upload(void* device, const void* host, std::int64_t bytes) {
  copy(device, host, bytes);
}

void CpuDevice::copy(void* to, const void* from, std::int64_t bytes) {
  for_pieces(bytes, [&](std::int64_t offset, std::int64_t size) {
    std::memcpy(static_cast<char*>(to) + offset, static_cast<const char*>(from) + offset,
                static_cast<std::size_t>(size));
  });
}

void CpuDevice::fill_bytes(void* device, std::uint8_t value, std::int64_t bytes) {
  for_pieces(bytes, [&](std::int64_t offset, std::int64_t size) {
    std::memset(static_cast<char*>(device) + offset, value, static_cast<std::size_t>(size));
  });
}

Sample CpuDevice::time(const Enqueue& enqueue, CacheState cache) {
  if (cache == CacheState::cold) flush_cache();
  const auto start = std::chrono::steady_clock::now();
  enqueue(stream());
  const auto stop = std::chrono::steady_clock::now();
  Sample sample;
  sample.seconds = std::chrono::duration<double>(stop - start).count();
  return sample;
}

void CpuDevice::flush_cache() {
  if (flush_buffer_ == nullptr) {
    flush_bytes_ = std::clamp(2 * info_.l2_bytes, 64 * kMiB, kFlushLimit);
    flush_buffer_ = allocate(flush_bytes_);
    fill_bytes(flush_buffer_, 1, flush_bytes_);  // or all pages may be one shared page of zeros
  }
  std::atomic<std::uint64_t> total = 0;
  for_pieces(flush_bytes_, [&](std::int64_t offset, std::int64_t size) {
    const auto* words =
        reinterpret_cast<const std::uint64_t*>(static_cast<const char*>(flush_buffer_) + offset);
    std::uint64_t sum = 0;
    for (std::int64_t i = 0; i < size / 8; i += 8) sum += words[i];  // one word a cache line
    total += sum;
  });
  // Every byte is 1, so each word read has its lowest bit set: the sum cannot be 0, and must be
  // computed to know.
  if (total == 0) throw Error("the cache flush read a damaged buffer");
}

}  // namespace flashbench
