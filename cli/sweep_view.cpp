#include "sweep_view.h"

#include <fmt/format.h>

#include <utility>

#include "curve.h"
#include "device_text.h"
#include "error.h"
#include "reference_text.h"
#include "report.h"
#include "terminal.h"

namespace flashbench {
namespace {

std::optional<AtomicFile> open(const std::optional<std::string>& path) {
  return path ? std::optional<AtomicFile>(*path) : std::nullopt;
}

}  // namespace

SweepView::SweepView(const SweepRequest& request, std::vector<std::string> names,
                     const std::optional<std::string>& output, CurveChoice curves)
    : path_(output),
      file_(open(output)),
      out_(file_ && file_->is_stdout() ? stderr : stdout),
      style_(style_of(out_)),
      curves_(curves),
      table_(request.problems, names, style_),
      progress_(stderr, is_terminal(stderr), request.problems) {}

void SweepView::print(std::string_view text) const {
  fmt::print(out_, "{}", text);
  std::fflush(out_);
}

void SweepView::save(const Run& run, bool last) {
  if (!file_) return;
  try {
    const std::string document = to_document(run);
    last ? file_->finish(document) : file_->write(document);
    lost_document_ = false;
  } catch (const Error& error) {
    // The measurements go on: a disk may have room again by the next cell.
    progress_.clear();
    if (!lost_document_ || last) fmt::print(stderr, "flashbench: {}\n", error.what());
    lost_document_ = true;
  }
}

void SweepView::begin(const Run& run, std::size_t /*total_cells*/) {
  if (file_) file_->write(to_document(run));
  run_ = &run;
  print(fmt::format("{}\n{} cache, {} load, {} data, seed {}\n", describe(run.device),
                    to_string(run.settings.cache), to_string(run.settings.load),
                    to_string(run.settings.distribution), run.settings.seed));
}

void SweepView::show_references() {
  if (shown_references_) return;
  shown_references_ = true;
  if (run_->references)
    print(fmt::format("this run's references: {}\n", describe(*run_->references)));
  print("\n");
}

void SweepView::warned(const Run& run) {
  progress_.clear();
  fmt::print(stderr, "flashbench: warning: {}\n", run.warnings.back());
}

void SweepView::started(const Problem& problem, std::string_view /*implementation*/,
                        std::size_t index, std::size_t total_cells) {
  // All cells of a problem are announced together; the line names the first.
  if (in_problem_) return;
  in_problem_ = true;
  show_references();
  progress_.begin_problem(problem, index, total_cells);
}

void SweepView::finished(const Run& run, std::size_t /*total_cells*/) {
  if (in_problem_) {
    in_problem_ = false;
    progress_.end_problem();
  }
  save(run, false);
  print(table_.row(run.cells.back()));
}

void SweepView::end(const Run& run) {
  progress_.clear();
  run_ = nullptr;
  save(run, true);
  print(table_.footnotes());
  if (curves_ != CurveChoice::off) {
    Style style = style_;
    if (curves_ == CurveChoice::braille) style.braille = true;
    if (curves_ == CurveChoice::ascii) style.braille = false;
    const std::string drawn = curves(run, style);
    if (!drawn.empty()) print("\n" + drawn);
  }
  const bool written = file_ && !lost_document_ && !file_->is_stdout();
  print(
      fmt::format("\n{}{}\n", summary(run), written ? fmt::format("; written to {}", *path_) : ""));
}

}  // namespace flashbench
