#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device.h"
#include "problem.h"
#include "tensor.h"

namespace flashbench {

/// naive: materialises the scores. fused: does not. library: somebody else's, a yardstick.
/// approximate: computes another function on purpose.
enum class Kind : std::uint8_t { naive, fused, library, approximate };
std::string_view to_string(Kind kind);

/// Where an implementation rounds, which is what its error bound follows (see exactness.h).
struct Arithmetic {
  bool scores_in_dtype = false;     ///< S is stored in the problem's dtype
  bool weights_in_dtype = true;     ///< P is rounded to the problem's dtype before P V
  bool weights_normalised = false;  ///< P is stored after division by the row sum
  bool tensor_core_sums = false;    ///< accumulates on tensor cores, which truncate
};

/// The unit that multiplies matrices in a step.
enum class MatrixUnit : std::uint8_t { none, fma_f32, tensor_f16, tensor_bf16, tensor_tf32 };

/// What a step of an implementation must do, by its author's count: for the HBM model and the
/// floor.
struct StepModel {
  std::string name;             ///< the plan's name of the step
  std::int64_t read_bytes = 0;  ///< from HBM, re-reads beyond the last-level cache included
  std::int64_t write_bytes = 0;
  MatrixUnit unit = MatrixUnit::none;
  double matrix_flops = 0;  ///< executed, masked tiles that are computed all the same included
  double exps = 0;          ///< executed
};

/// A named part of a plan. Enqueues on the stream, allocates nothing, may run any number of times.
struct Step {
  std::string name;
  Enqueue enqueue;
};

/// Everything prepared for one problem and one set of tensors; what the closures capture keeps it
/// alive.
struct Plan {
  std::vector<Step> steps;
  /// What was chosen, for the record: {"tile", "128x64"}, {"version", "9.19"}.
  std::map<std::string, std::string> choices;

  void enqueue(Stream stream) const {
    for (const Step& step : steps) step.enqueue(stream);
  }
};

/// One way to compute attention. Stateless: everything of a problem lives in its plan.
class Implementation {
 public:
  Implementation() = default;
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;
  virtual ~Implementation() = default;

  /// The CLI name, which is the file's name with '-' for '_'.
  virtual std::string_view name() const = 0;
  /// One line.
  virtual std::string_view description() const = 0;
  virtual DeviceKind device() const = 0;
  virtual Kind kind() const = 0;

  /// Why `problem` cannot be computed on this device (head dim, dtype, architecture), or nothing.
  virtual std::optional<std::string> unsupported(const Problem& problem,
                                                 const DeviceInfo& device) const = 0;
  /// Why it can never run on this device, whatever the problem, or nothing. For `flashbench list`.
  virtual std::optional<std::string> unavailable(const DeviceInfo& /*device*/) const {
    return std::nullopt;
  }
  virtual Arithmetic arithmetic(const Problem& problem) const = 0;
  /// Bytes beyond Q, K, V and O. Supported problems only.
  virtual std::int64_t workspace_bytes(const Problem& problem, const DeviceInfo& device) const = 0;
  /// The steps' work, or nothing for code that is not ours.
  virtual std::optional<std::vector<StepModel>> model(const Problem& problem,
                                                      const DeviceInfo& device) const = 0;
  /// `workspace` holds workspace_bytes() bytes, 256-byte aligned (null when 0). Supported problems
  /// only.
  virtual Plan plan(const Problem& problem, const Operands& operands, void* workspace,
                    Device& device) const = 0;
};

using Catalogue = std::vector<std::unique_ptr<Implementation>>;

}  // namespace flashbench
