#pragma once

#include <atomic>

namespace flashbench {

/// From now on the first SIGINT or SIGTERM sets the flag returned, and says so on stderr; a second
/// one ends the process as if nothing had been caught.
const std::atomic<bool>& catch_interrupts();

}  // namespace flashbench
