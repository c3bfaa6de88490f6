#pragma once

#include <fmt/format.h>

#include <limits>
#include <optional>
#include <string>

#include "implementation.h"
#include "reference/openblas.h"

namespace flashbench {

/// What the approximations on the CPU have in common. Each computes a function other than attention
/// on purpose, in f32 and without rounding its weights: where the function coincides with attention
/// it must be judged exact.
class CpuApproximate : public Implementation {
 public:
  DeviceKind device() const override { return DeviceKind::cpu; }
  Kind kind() const override { return Kind::approximate; }

  std::optional<std::string> unavailable(const DeviceInfo& /*device*/) const override {
    return openblas_refusal();
  }
  std::optional<std::string> unsupported(const Problem& problem,
                                         const DeviceInfo& device) const override {
    if (auto reason = unavailable(device)) return reason;
    constexpr auto kLargest = std::numeric_limits<blasint>::max();
    if (problem.n_kv > kLargest || problem.head_dim > kLargest) {
      return fmt::format("OpenBLAS counts in 32 bits: n_kv and head_dim may be {} at most",
                         kLargest);
    }
    return std::nullopt;
  }

  Arithmetic arithmetic(const Problem& /*problem*/) const override {
    return {.scores_in_dtype = false,
            .weights_in_dtype = false,
            .weights_normalised = true,
            .tensor_core_sums = false};
  }
};

}  // namespace flashbench
