#include "host_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

#include "error.h"

namespace flashbench {
namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return value;
}

/// The number at the start of a file; nothing for a missing file and for "max".
std::optional<std::int64_t> read_integer(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return std::nullopt;
  return parse_integer(word);
}

/// The number after `key` in a file of "key value" lines.
std::optional<std::int64_t> read_field(const fs::path& path, std::string_view key) {
  std::ifstream file(path);
  std::string name;
  std::string value;
  std::string rest;
  while (file >> name >> value && std::getline(file, rest)) {
    if (name == key) return parse_integer(value);
  }
  return std::nullopt;
}

/// Calls visit(folder) for the control group of `controller` ("" for v2) and each of its ancestors.
/// Inside a container the path is often the host's and only the mount's root exists here: what is
/// not there is passed over.
void for_each_group(const HostPaths& paths, std::string_view controller,
                    const std::function<void(const fs::path&)>& visit) {
  std::ifstream file(paths.proc / "self" / "cgroup");
  for (std::string line; std::getline(file, line);) {
    // hierarchy:controllers:path
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    if (controllers.find(fmt::format(",{},", controller)) == std::string::npos) continue;
    const fs::path mount = controller.empty() ? paths.cgroup : paths.cgroup / controller;
    for (fs::path group = fs::path(line.substr(second + 1)).relative_path();;
         group = group.parent_path()) {
      visit(mount / group);
      if (group.empty()) break;
    }
  }
}

struct MemoryLimit {
  std::int64_t total;
  std::int64_t left;
};

/// The tightest memory limits of all control groups; the largest integer where there is none.
MemoryLimit group_memory(const HostPaths& paths) {
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  MemoryLimit least{kNone, kNone};
  const auto take = [&](const fs::path& limit_file, const fs::path& use_file,
                        const fs::path& stat_file) {
    const auto limit = read_integer(limit_file);
    if (!limit) return;
    least.total = std::min(least.total, *limit);
    const std::int64_t cache = read_field(stat_file, "inactive_file").value_or(0);
    const std::int64_t used = read_integer(use_file).value_or(0) - cache;
    least.left = std::min(least.left, *limit - std::max<std::int64_t>(used, 0));
  };
  for_each_group(paths, "", [&](const fs::path& group) {
    take(group / "memory.max", group / "memory.current", group / "memory.stat");
  });
  for_each_group(paths, "memory", [&](const fs::path& group) {
    take(group / "memory.limit_in_bytes", group / "memory.usage_in_bytes", group / "memory.stat");
  });
  return least;
}

std::int64_t meminfo(const HostPaths& paths, std::string_view key) {
  const fs::path path = paths.proc / "meminfo";
  const auto kilobytes = read_field(path, key);
  if (!kilobytes) throw Error(fmt::format("cannot read {} from {}", key, path.string()));
  return *kilobytes * 1024;
}

}  // namespace

std::int64_t total_memory(const HostPaths& paths) {
  return std::min(meminfo(paths, "MemTotal:"), group_memory(paths).total);
}

std::int64_t available_memory(const HostPaths& paths) {
  return std::max<std::int64_t>(std::min(meminfo(paths, "MemAvailable:"), group_memory(paths).left),
                                0);
}

std::optional<double> cpu_quota(const HostPaths& paths) {
  std::optional<double> least;
  const auto take = [&](std::optional<std::int64_t> quota, std::optional<std::int64_t> period) {
    if (!quota || !period || *quota <= 0 || *period <= 0) return;  // v1 writes -1 for no limit
    const double cpus = static_cast<double>(*quota) / static_cast<double>(*period);
    least = least ? std::min(*least, cpus) : cpus;
  };
  for_each_group(paths, "", [&](const fs::path& group) {
    std::ifstream file(group / "cpu.max");
    std::string quota;
    std::string period;
    if (file >> quota >> period) take(parse_integer(quota), parse_integer(period));
  });
  for_each_group(paths, "cpu", [&](const fs::path& group) {
    take(read_integer(group / "cpu.cfs_quota_us"), read_integer(group / "cpu.cfs_period_us"));
  });
  return least;
}

}  // namespace flashbench
