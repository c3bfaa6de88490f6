#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace flashbench {

/// Where the kernel's files are; tests lay out their own.
struct HostPaths {
  std::filesystem::path proc = "/proc";
  std::filesystem::path cgroup = "/sys/fs/cgroup";
};

/// Bytes of memory this process may count on: the machine's, or the least limit of its control
/// groups (v1 and v2). Throws Error where /proc/meminfo cannot be read.
std::int64_t total_memory(const HostPaths& paths = {});

/// Bytes this process can still take before it must swap or is killed: MemAvailable, or what is
/// left to the tightest of its control groups (reclaimable page cache counts as left), whichever is
/// less; at least 0. Throws Error where /proc/meminfo cannot be read.
std::int64_t available_memory(const HostPaths& paths = {});

/// CPUs' worth of time that the control groups (v1 and v2) grant, 1.5 for one and a half; nothing
/// where unlimited.
std::optional<double> cpu_quota(const HostPaths& paths = {});

}  // namespace flashbench
