#pragma once

#include <optional>
#include <string>

#include "device.h"
#include "problem.h"

namespace flashbench {

/// Why a device is too old for what needs compute capability `least` (75: sm_75), or nothing.
inline std::optional<std::string> older_than(int least, const DeviceInfo& device) {
  if (device.compute_capability >= least) return std::nullopt;
  const auto dotted = [](int capability) {
    return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
  };
  return "needs compute capability " + dotted(least) + ", this device has " +
         dotted(device.compute_capability);
}

/// Why a kernel for the multiples of 8 up to 256 cannot take a head dim, or nothing.
inline std::optional<std::string> head_dim_refusal(const Problem& problem) {
  const std::string name = "head dim " + std::to_string(problem.head_dim);
  if (problem.head_dim % 8 != 0) return name + " is not a multiple of 8";
  if (problem.head_dim > 256) return name + " is above 256";
  return std::nullopt;
}

/// Why mma.sync in f32 accumulation cannot take a problem on this device, or nothing.
inline std::optional<std::string> mma_refusal(const Problem& problem, const DeviceInfo& device) {
  if (auto reason = older_than(80, device)) return reason;
  if (problem.dtype == Dtype::f32) return "tensor cores take f16 and bf16, not f32";
  return head_dim_refusal(problem);
}

}  // namespace flashbench
