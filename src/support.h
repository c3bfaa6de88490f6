#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device.h"
#include "implementation.h"

namespace flashbench {

/// Ascending values in few words: "64, 128, 256", "8 to 256 in steps of 8".
std::string describe_values(std::span<const std::int64_t> values);

/// What an implementation supports on a device, found by asking it and not by a second table: a
/// line for the dtypes that take the same head dimensions ("f16, bf16: head dim 8 to 256 in steps
/// of 8"), and one for each thing that it refuses (causal masks, grouped heads, n_q other than
/// n_kv). Head dimensions are asked for up to kMostProbed; where all are taken the line says "any
/// head dim".
std::vector<std::string> describe_support(const Implementation& implementation,
                                          const DeviceInfo& device);
inline constexpr std::int64_t kMostProbed = 1024;

}  // namespace flashbench
