#pragma once

#include <string>

namespace flashbench {

/// Now, as ISO 8601 has it: "2026-01-02T03:04:05Z".
std::string utc_now();

}  // namespace flashbench
