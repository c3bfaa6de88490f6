#include "host_limits.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "error.h"

namespace flashbench {
namespace {

namespace fs = std::filesystem;

/// A machine with 1000 kB of memory, 600 kB of it available, made of files.
class HostLimitsTest : public ::testing::Test {
 public:
  HostLimitsTest(const HostLimitsTest&) = delete;
  HostLimitsTest& operator=(const HostLimitsTest&) = delete;
  ~HostLimitsTest() override { fs::remove_all(root_); }

 protected:
  HostLimitsTest() {
    std::string pattern = (fs::temp_directory_path() / "flashbench-host-XXXXXX").string();
    root_ = mkdtemp(pattern.data());
    paths_ = {root_ / "proc", root_ / "cgroup"};
    write("proc/meminfo",
          "MemTotal:        1000 kB\nMemFree:          100 kB\nMemAvailable:     600 kB\n");
  }

  void write(const fs::path& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  HostPaths paths_;

 private:
  fs::path root_;
};

TEST_F(HostLimitsTest, WithoutControlGroupsItIsTheMachine) {
  EXPECT_EQ(total_memory(paths_), 1000 * 1024);
  EXPECT_EQ(available_memory(paths_), 600 * 1024);
  EXPECT_EQ(cpu_quota(paths_), std::nullopt);
}

TEST_F(HostLimitsTest, UnlimitedGroupsLimitNothing) {
  write("proc/self/cgroup", "3:memory:/a\n2:cpu,cpuacct:/a\n0::/a\n");
  write("cgroup/a/memory.max", "max\n");
  write("cgroup/a/memory.current", "900000\n");
  write("cgroup/a/cpu.max", "max 100000\n");
  write("cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
  write("cgroup/memory/a/memory.usage_in_bytes", "900000\n");
  write("cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
  write("cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(total_memory(paths_), 1000 * 1024);
  EXPECT_EQ(available_memory(paths_), 600 * 1024);
  EXPECT_EQ(cpu_quota(paths_), std::nullopt);
}

TEST_F(HostLimitsTest, VersionTwoLimitsAndItsAncestors) {
  write("proc/self/cgroup", "0::/slice/unit\n");
  write("cgroup/slice/unit/memory.max", "500000\n");
  write("cgroup/slice/unit/memory.current", "100000\n");
  write("cgroup/slice/unit/memory.stat", "anon 60000\nfile 40000\ninactive_file 30000\n");
  EXPECT_EQ(total_memory(paths_), 500000);
  EXPECT_EQ(available_memory(paths_), 500000 - 70000);  // inactive page cache is given up
  write("cgroup/slice/memory.max", "200000\n");
  write("cgroup/slice/memory.current", "150000\n");
  EXPECT_EQ(total_memory(paths_), 200000);
  EXPECT_EQ(available_memory(paths_), 50000);
  write("cgroup/slice/memory.current", "250000\n");
  EXPECT_EQ(available_memory(paths_), 0);
}

TEST_F(HostLimitsTest, VersionOneLimits) {
  write("proc/self/cgroup", "4:memory:/a\n1:name=systemd:/\n0::/\n");
  write("cgroup/memory/a/memory.limit_in_bytes", "300000\n");
  write("cgroup/memory/a/memory.usage_in_bytes", "120000\n");
  write("cgroup/memory/a/memory.stat", "cache 50000\ninactive_file 20000\n");
  EXPECT_EQ(total_memory(paths_), 300000);
  EXPECT_EQ(available_memory(paths_), 200000);
}

TEST_F(HostLimitsTest, InAContainerThePathIsTheHostsAndOnlyTheRootExists) {
  write("proc/self/cgroup", "4:memory:/docker/0123\n0::/docker/0123\n");
  write("cgroup/memory/memory.limit_in_bytes", "300000\n");
  write("cgroup/memory/memory.usage_in_bytes", "100000\n");
  EXPECT_EQ(available_memory(paths_), 200000);
}

TEST_F(HostLimitsTest, CpuQuotas) {
  write("proc/self/cgroup", "0::/slice/unit\n");
  write("cgroup/slice/unit/cpu.max", "400000 100000\n");
  EXPECT_EQ(cpu_quota(paths_), 4.0);
  write("cgroup/slice/cpu.max", "150000 100000\n");
  EXPECT_EQ(cpu_quota(paths_), 1.5);
  write("proc/self/cgroup", "2:cpu,cpuacct:/a\n");
  write("cgroup/cpu/a/cpu.cfs_quota_us", "50000\n");
  write("cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(paths_), 0.5);
}

TEST_F(HostLimitsTest, DamagedFilesAreNotLimits) {
  write("proc/self/cgroup", "nonsense\n:::\n0::\n\n0::/a\n");
  write("cgroup/a/memory.max", "lots\n");
  write("cgroup/a/cpu.max", "100000\n");
  EXPECT_EQ(available_memory(paths_), 600 * 1024);
  EXPECT_EQ(cpu_quota(paths_), std::nullopt);
  write("proc/meminfo", "MemTotal: 5 kB\n");
  EXPECT_THROW(available_memory(paths_), Error);
}

TEST(HostLimitsOfThisMachineTest, ArePlausible) {
  EXPECT_GT(available_memory(), std::int64_t{1} << 24U);
  EXPECT_LE(available_memory(), total_memory());
}

}  // namespace
}  // namespace flashbench
