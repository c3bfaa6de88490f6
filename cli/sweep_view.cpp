#include "sweep_view.h"

#include <fmt/format.h>

#include <utility>

#include "curve.h"
#include "device_text.h"
#include "executed.h"
#include "reference_text.h"
#include "report.h"
#include "terminal.h"

namespace flashbench {
namespace {

/// How far what the figures are held against has itself moved; empty where it was measured once.
std::string drift_note(const Run& run) {
  const double drift = run.references ? run.references->drift() : 0;
  if (!(drift > 0)) return "";
  return fmt::format("  the references moved by up to {:.1f} % while this ran\n", 100 * drift);
}

}  // namespace

SweepView::SweepView(const SweepRequest& request, std::vector<std::string> names,
                     const std::optional<std::string>& output, CurveChoice curves)
    : document_(output),
      out_(document_.text_stream()),
      style_(style_of(out_)),
      curves_(curves),
      table_(request.problems, names, style_),
      progress_(stderr, is_terminal(stderr), request.problems) {}

void SweepView::print(std::string_view text) const {
  fmt::print(out_, "{}", text);
  std::fflush(out_);
}

void SweepView::begin(const Run& run, std::size_t /*total_cells*/) {
  document_.begin(to_document(run));
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
  document_.update(to_document(run));
  print(table_.row(run.cells.back()));
}

void SweepView::end(const Run& run) {
  progress_.clear();
  run_ = nullptr;
  document_.finish(to_document(run));
  print(table_.footnotes() + causal_shares(run) + drift_note(run));
  if (curves_ != CurveChoice::off) {
    Style style = style_;
    if (curves_ == CurveChoice::braille) style.braille = true;
    if (curves_ == CurveChoice::ascii) style.braille = false;
    const std::string drawn = curves(run, style);
    if (!drawn.empty()) print("\n" + drawn);
  }
  print(fmt::format("\n{}{}\n", summary(run), document_.note()));
}

}  // namespace flashbench
