#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "arena.h"
#include "backend.h"
#include "oracle.h"

namespace flashbench {

/// The byte that outputs are filled with before a launch: a NaN in every dtype.
constexpr std::uint8_t kPoison = 0xff;

/// The device memory of one problem: Q, K and V and one workspace, shared by all implementations
/// that run on it, an output for each of them, and a spare output to compare with. Throws
/// OutOfMemory.
class Workbench {
 public:
  /// `with_lse`: also a log-sum-exp array for each output.
  Workbench(Arena& arena, Device& device, const Problem& problem, std::size_t outputs,
            std::int64_t workspace_bytes, bool with_lse = false);

  const Problem& problem() const { return problem_; }
  /// The shared inputs with output number `output`.
  Operands operands(std::size_t output) const;
  void* workspace() const { return workspace_.data(); }

  /// Fills an output (and its log-sum-exp) with poison.
  void poison(std::size_t output);
  /// Copies an output into the spare one.
  void keep(std::size_t output);
  Tensor spare() const;

  /// Elements of the given rows of an output, [rows, head_dim], on the host.
  std::vector<double> read_rows(std::size_t output, std::span<const RowId> rows) const;

 private:
  Problem problem_;
  Device* device_;
  Buffer q_, k_, v_, workspace_, spare_;
  std::vector<Buffer> outputs_;
  std::vector<Buffer> lse_;
};

}  // namespace flashbench
