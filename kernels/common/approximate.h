#pragma once

#include <optional>
#include <string>

#include "implementation.h"
#include "kernels/common/refusals.h"

namespace flashbench {

/// What the approximations on CUDA have in common. Each computes the function of its namesake on
/// the CPU, and is attention only where its description says so: there it must be judged exact.
class CudaApproximate : public Implementation {
 public:
  DeviceKind device() const override { return DeviceKind::cuda; }
  Kind kind() const override { return Kind::approximate; }
};

/// Those on tensor cores by mma.sync.
class MmaApproximate : public CudaApproximate {
 public:
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

/// Those in plain f32 arithmetic.
class SimtApproximate : public CudaApproximate {
 public:
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
