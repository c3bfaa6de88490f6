#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "problem.h"

namespace flashbench {

/// How long a problem took, verification and all.
struct Timing {
  double flops = 0;
  double seconds = 0;
};

/// Seconds that problems of `remaining` flops will take, by a fixed cost (the least so far) and a
/// rate (the largest problem's so far). Nothing while there is no finished one.
std::optional<double> time_left(const std::vector<Timing>& finished,
                                const std::vector<double>& remaining);

/// One line on a terminal, rewritten in place: "cell 5 of 18: naive B1 H16 N4k d128 bf16, 34 s
/// left". Shown on a terminal only. Anything else printed there goes between clear() and the next
/// problem.
class Progress {
 public:
  /// Writes to `out` where `shown`.
  Progress(std::FILE* out, bool shown, std::vector<Problem> problems);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// The cells of a problem begin; `first` counts from 0.
  void begin_problem(const Problem& problem, std::size_t first_cell, std::size_t total_cells);
  void end_problem();
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  std::FILE* out_;
  bool shown_;
  bool drawn_ = false;
  std::vector<Problem> problems_;
  std::size_t next_problem_ = 0;
  std::vector<Timing> finished_;
  Clock::time_point started_;
};

}  // namespace flashbench
