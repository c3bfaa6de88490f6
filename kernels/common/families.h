#pragma once

#include <optional>
#include <string>

#include "implementation.h"
#include "kernels/common/refusals.h"

namespace flashbench {

/// What the implementations on tensor cores by mma.sync have in common: f16 and bf16, sums in f32,
/// weights rounded to the dtype.
class MmaImplementation : public Implementation {
 public:
  DeviceKind device() const override { return DeviceKind::cuda; }

  std::optional<std::string> unavailable(const DeviceInfo& device) const override {
    return older_than(80, device);
  }
  std::optional<std::string> unsupported(const Problem& problem,
                                         const DeviceInfo& device) const override {
    return mma_refusal(problem, device);
  }
  Arithmetic arithmetic(const Problem& /*problem*/) const override {
    return {.scores_in_dtype = false,
            .weights_in_dtype = true,
            .weights_normalised = false,
            .tensor_core_sums = true};
  }
};

/// Those in plain f32 arithmetic, for every dtype.
class SimtImplementation : public Implementation {
 public:
  DeviceKind device() const override { return DeviceKind::cuda; }

  std::optional<std::string> unavailable(const DeviceInfo& device) const override {
    return older_than(75, device);
  }
  std::optional<std::string> unsupported(const Problem& problem,
                                         const DeviceInfo& device) const override {
    if (auto reason = unavailable(device)) return reason;
    return head_dim_refusal(problem);
  }
  Arithmetic arithmetic(const Problem& /*problem*/) const override {
    return {.scores_in_dtype = false,
            .weights_in_dtype = false,
            .weights_normalised = false,
            .tensor_core_sums = false};
  }
};

}  // namespace flashbench
