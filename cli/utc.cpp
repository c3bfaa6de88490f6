#include "utc.h"

#include <fmt/chrono.h>

#include <ctime>

namespace flashbench {

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

}  // namespace flashbench
