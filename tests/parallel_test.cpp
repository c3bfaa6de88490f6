#include "parallel.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace flashbench {
namespace {

TEST(ParallelForTest, VisitsEachItemOnce) {
  for (const std::int64_t count : {0, 1, 2, 3, 100, 10000}) {
    std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
    parallel_for(count, [&](std::int64_t i) { ++visits[static_cast<std::size_t>(i)]; });
    for (const auto& visit : visits) ASSERT_EQ(visit, 1);
  }
  parallel_for(-5, [](std::int64_t) { FAIL(); });
}

TEST(ParallelForTest, UsesSeveralThreadsWhereThereAre) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  // An item lasts until every thread has come, or until the deadline.
  parallel_for(cpu_threads(), [&](std::int64_t) {
    while (std::chrono::steady_clock::now() < deadline) {
      const std::scoped_lock lock(mutex);
      threads.insert(std::this_thread::get_id());
      if (threads.size() == static_cast<std::size_t>(cpu_threads())) return;
    }
  });
  EXPECT_EQ(threads.size(), static_cast<std::size_t>(cpu_threads()));
}

TEST(ParallelForTest, HandsItemsOutOneAtATime) {
  if (cpu_threads() < 2) GTEST_SKIP() << "one thread";
  // The first item waits for all others: with items dealt out in advance it would wait forever.
  std::atomic<int> done = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  parallel_for(100, [&](std::int64_t i) {
    while (i == 0 && done < 99 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    ++done;
    if (i == 0) {
      EXPECT_EQ(done, 100);
    }
  });
}

TEST(ParallelForTest, RethrowsTheFirstExceptionAfterAllHaveEnded) {
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::atomic<int> running = 0;
    std::atomic<int> begun = 0;
    std::string message;
    try {
      parallel_for(1000, [&](std::int64_t i) {
        ++running;
        ++begun;
        if (i == 3) {
          --running;
          throw std::runtime_error("item 3");
        }
        std::this_thread::sleep_for(std::chrono::microseconds(10));
        --running;
      });
    } catch (const std::runtime_error& error) {
      message = error.what();
    }
    EXPECT_EQ(message, "item 3");
    EXPECT_EQ(running, 0);
    EXPECT_LT(begun, 1000);
  }
  std::atomic<int> visits = 0;
  parallel_for(10, [&](std::int64_t) { ++visits; });  // and works on
  EXPECT_EQ(visits, 10);
}

TEST(ParallelForTest, MayBeNested) {
  std::atomic<int> visits = 0;
  parallel_for(10, [&](std::int64_t) { parallel_for(10, [&](std::int64_t) { ++visits; }); });
  EXPECT_EQ(visits, 100);
  EXPECT_THROW(
      parallel_for(4, [](std::int64_t) { parallel_for(4, [](std::int64_t) { throw 1; }); }), int);
}

TEST(ParallelForTest, MayBeCalledFromSeveralThreads) {
  std::atomic<int> visits = 0;
  {
    std::vector<std::jthread> callers;
    for (int caller = 0; caller < 4; ++caller) {
      callers.emplace_back([&] {
        for (int repeat = 0; repeat < 200; ++repeat) {
          parallel_for(5, [&](std::int64_t) { ++visits; });
        }
      });
    }
  }
  EXPECT_EQ(visits, 4 * 200 * 5);
}

TEST(ParallelForTest, WhatAnItemWroteIsSeenAfterwards) {
  for (int repeat = 0; repeat < 2000; ++repeat) {
    std::vector<int> values(8, 0);  // not atomic: the call itself must order them
    parallel_for(8, [&](std::int64_t i) { values[static_cast<std::size_t>(i)] = repeat + 1; });
    for (const int value : values) ASSERT_EQ(value, repeat + 1);
  }
}

TEST(CpuThreadsTest, IsWithinTheAffinityMask) {
  cpu_set_t set;
  CPU_ZERO(&set);
  ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  EXPECT_GE(cpu_threads(), 1);
  EXPECT_LE(cpu_threads(), CPU_COUNT(&set));
}

}  // namespace
}  // namespace flashbench
