#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "error.h"

namespace flashbench {

inline std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// `tiles` x `of_a_tile` thread blocks (both positive) as the first dimension of a grid. Throws
/// Error, naming the implementation, where they are more than it holds.
inline unsigned grid_size(std::string_view name, std::int64_t tiles, std::int64_t of_a_tile = 1) {
  if (tiles > std::numeric_limits<std::int32_t>::max() / of_a_tile) {
    throw Error(std::string(name) + ": more than 2^31 - 1 thread blocks");
  }
  return static_cast<unsigned>(tiles * of_a_tile);
}

}  // namespace flashbench
