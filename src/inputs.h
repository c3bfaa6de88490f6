#pragma once

#include <cstdint>

namespace flashbench {

/// How Q, K and V are drawn.
enum class Distribution : std::uint8_t { normal };

struct InputSpec {
  Distribution distribution = Distribution::normal;
  std::uint64_t seed = 0;
};

}  // namespace flashbench
