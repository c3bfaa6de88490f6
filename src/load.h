#pragma once

#include <cstdint>
#include <string_view>

namespace flashbench {

/// The power window that a time belongs to. burst: short samples with rests between them, at full
/// clock. sustained: each implementation held for a while first, so that the card has found the
/// clock its power limit allows. Never mixed in one comparison.
enum class Load : std::uint8_t { burst, sustained };
std::string_view to_string(Load load);

}  // namespace flashbench
