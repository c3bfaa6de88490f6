#pragma once

#include <atomic>
#include <cstdint>

#include "parallel.h"

namespace flashbench {

/// work(i, scratch) for each i in [0, count) on cpu_threads() threads; items are handed out one at
/// a time, and each thread has `bytes` of `scratch` to itself, which holds cpu_threads() times as
/// many. `bytes`: a multiple of 256, or 0 with null.
template <typename Work>
void for_each_with_scratch(std::int64_t count, void* scratch, std::int64_t bytes,
                           const Work& work) {
  std::atomic<std::int64_t> next = 0;
  parallel_for(cpu_threads(), [&](std::int64_t slot) {
    auto* own = reinterpret_cast<float*>(static_cast<char*>(scratch) + slot * bytes);
    for (std::int64_t i = next++; i < count; i = next++) work(i, own);
  });
}

/// Bytes of scratch for so many floats, so that threads share no cache line.
inline std::int64_t scratch_bytes(std::int64_t floats) {
  return (floats * 4 + 255) / 256 * 256;
}

}  // namespace flashbench
