#include "progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "units.h"

namespace flashbench {

std::optional<double> time_left(const std::vector<Timing>& finished,
                                const std::vector<double>& remaining) {
  if (finished.empty()) return std::nullopt;
  const auto by_seconds = [](const Timing& a, const Timing& b) { return a.seconds < b.seconds; };
  const auto by_flops = [](const Timing& a, const Timing& b) { return a.flops < b.flops; };
  const double fixed = std::min_element(finished.begin(), finished.end(), by_seconds)->seconds;
  const Timing largest = *std::max_element(finished.begin(), finished.end(), by_flops);
  const double rate = largest.flops > 0 ? (largest.seconds - fixed) / largest.flops : 0;
  double seconds = 0;
  for (const double flops : remaining) seconds += fixed + rate * flops;
  return seconds;
}

Progress::Progress(std::FILE* out, bool shown, std::vector<Problem> problems)
    : out_(out), shown_(shown), problems_(std::move(problems)) {}

void Progress::begin_problem(const Problem& problem, std::size_t first_cell,
                             std::size_t total_cells) {
  started_ = Clock::now();
  if (!shown_) return;
  std::vector<double> remaining;
  for (std::size_t p = next_problem_; p < problems_.size(); ++p) {
    remaining.push_back(problems_[p].flops());
  }
  const std::optional<double> left = time_left(finished_, remaining);
  clear();
  fmt::print(out_, "cell {} of {}: {}{}", first_cell + 1, total_cells, problem.to_string(),
             left ? fmt::format(", about {} left", format_wait(*left)) : "");
  std::fflush(out_);
  drawn_ = true;
}

void Progress::end_problem() {
  if (next_problem_ < problems_.size()) {
    const std::chrono::duration<double> spent = Clock::now() - started_;
    finished_.push_back({problems_[next_problem_].flops(), spent.count()});
    ++next_problem_;
  }
  clear();
}

void Progress::clear() {
  if (!drawn_) return;
  fmt::print(out_, "\r\x1b[K");
  std::fflush(out_);
  drawn_ = false;
}

}  // namespace flashbench
