#include "arena.h"

#include <gtest/gtest.h>

#include <utility>

#include "error.h"
#include "fakes.h"

namespace flashbench {
namespace {

TEST(ArenaTest, CountsWhatLives) {
  FakeDevice device(1 << 20);
  Arena arena(device);
  {
    const Buffer first = arena.allocate(1000);
    EXPECT_NE(first.data(), nullptr);
    EXPECT_EQ(first.bytes(), 1000);
    EXPECT_EQ(arena.current_bytes(), 1000);
    {
      const Buffer second = arena.allocate(500);
      EXPECT_EQ(arena.current_bytes(), 1500);
    }
    EXPECT_EQ(arena.current_bytes(), 1000);
    const Buffer third = arena.allocate(100);
    EXPECT_EQ(arena.peak_bytes(), 1500);
  }
  EXPECT_EQ(arena.current_bytes(), 0);
  EXPECT_EQ(arena.peak_bytes(), 1500);
  EXPECT_EQ(device.free_bytes(), 1 << 20);
}

TEST(ArenaTest, NothingCostsNothing) {
  FakeDevice device(1 << 20);
  Arena arena(device);
  const Buffer empty = arena.allocate(0);
  EXPECT_EQ(empty.data(), nullptr);
  EXPECT_EQ(empty.bytes(), 0);
  EXPECT_EQ(arena.peak_bytes(), 0);
}

TEST(ArenaTest, ARefusedAllocationLeavesTheCountsAlone) {
  FakeDevice device(1 << 20);
  Arena arena(device);
  const Buffer held = arena.allocate(1000);
  EXPECT_THROW(arena.allocate(std::int64_t{1} << 40U), OutOfMemory);
  EXPECT_EQ(arena.current_bytes(), 1000);
  EXPECT_EQ(arena.peak_bytes(), 1000);
  const Buffer next = arena.allocate(24);
  EXPECT_EQ(arena.current_bytes(), 1024);
}

TEST(ArenaTest, MovingABufferMovesItsMemoryOnce) {
  FakeDevice device(1 << 20);
  Arena arena(device);
  Buffer from = arena.allocate(100);
  void* data = from.data();
  Buffer to = std::move(from);
  EXPECT_EQ(to.data(), data);
  EXPECT_EQ(from.data(), nullptr);  // NOLINT(bugprone-use-after-move): what move leaves is promised
  EXPECT_EQ(arena.current_bytes(), 100);
  to = arena.allocate(50);  // what it held goes back
  EXPECT_EQ(arena.current_bytes(), 50);
  to = Buffer();
  EXPECT_EQ(arena.current_bytes(), 0);
  EXPECT_EQ(device.free_bytes(), 1 << 20);
}

TEST(ArenaTest, AMovedIntoBufferOutlivesItsOldScope) {
  FakeDevice device(1 << 20);
  Arena arena(device);
  Buffer outer;
  {
    Buffer inner = arena.allocate(64);
    outer = std::move(inner);
  }
  EXPECT_EQ(arena.current_bytes(), 64);
  EXPECT_EQ(outer.bytes(), 64);
}

}  // namespace
}  // namespace flashbench
