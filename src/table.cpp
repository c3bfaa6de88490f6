#include "table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "report.h"
#include "units.h"

namespace flashbench {
namespace {

struct Column {
  std::string_view title;
  std::size_t width;
};

/// Between the implementation's name and the verdict; each as wide as its widest figure.
constexpr std::array<Column, 7> kFigures{{{"time", 10},
                                          {"spread", 7},
                                          {"speed-up", 8},
                                          {"bound by", 8},
                                          {"HBM bytes", 10},
                                          {"workspace", 9},
                                          {"peak memory", 11}}};

std::string pad_left(std::string_view text, std::size_t width) {
  const std::size_t shown = display_width(text);
  return std::string(width > shown ? width - shown : 0, ' ') + std::string(text);
}

std::string pad_right(std::string_view text, std::size_t width) {
  const std::size_t shown = display_width(text);
  return std::string(text) + std::string(width > shown ? width - shown : 0, ' ');
}

/// Half the confidence interval of the median over the median.
std::string spread(const TimeStats& time) {
  if (!(time.median_s > 0) || time.samples_s.size() < 2) return "-";
  const double half = 50.0 * (time.ci_high_s - time.ci_low_s) / time.median_s;
  return half < 9.95 ? fmt::format("±{:.1f}%", half) : fmt::format("±{:.0f}%", half);
}

Ink ink_of(Status status) {
  switch (status) {
    case Status::ok: return Ink::green;
    case Status::wrong:
    case Status::failed: return Ink::red;
    case Status::unsupported:
    case Status::out_of_memory: return Ink::yellow;
    case Status::not_run: return Ink::dim;
  }
  return Ink::plain;
}

std::string rows_checked(const Exactness& exactness) {
  if (exactness.rows_checked >= exactness.rows_total) return "";
  return fmt::format(", {} of {} rows", format_grouped(exactness.rows_checked),
                     format_grouped(exactness.rows_total));
}

std::string with_reason(std::string_view status, const Cell& cell) {
  return cell.reason ? fmt::format("{}: {}", status, *cell.reason) : std::string(status);
}

std::string_view words(Status status) {
  switch (status) {
    case Status::ok: return "ok";
    case Status::unsupported: return "unsupported";
    case Status::out_of_memory: return "out of memory";
    case Status::wrong: return "WRONG";
    case Status::failed: return "FAILED";
    case Status::not_run: return "not run";
  }
  return "?";
}

}  // namespace

std::string outcome(const Cell& cell) {
  if (cell.status != Status::ok) return with_reason(words(cell.status), cell);
  if (!cell.exactness) return "ok";
  switch (cell.exactness->verdict) {
    case Verdict::exact: return "exact" + rows_checked(*cell.exactness);
    case Verdict::not_exact: return "not exact" + rows_checked(*cell.exactness);
    case Verdict::not_checked: return "not checked";
  }
  return "?";
}

Table::Table(std::span<const Problem> problems, std::span<const std::string> implementations,
             Style style)
    : style_(style), sections_(split_sections(problems)) {
  show_batch_ = std::any_of(sections_.begin(), sections_.end(),
                            [](const Section& section) { return section.batch_varies; });
  length_width_ = display_width("N");
  for (const Problem& problem : problems) {
    length_width_ = std::max(length_width_, display_width(length_label(problem)));
  }
  name_width_ = display_width("implementation");
  for (const std::string& name : implementations) {
    name_width_ = std::max(name_width_, display_width(name));
  }
}

std::string Table::line(const std::vector<std::string>& columns, std::string_view last) const {
  constexpr std::string_view kGap = "  ";
  constexpr std::size_t kBatchWidth = 6;
  std::size_t next = 0;
  std::string text = pad_left(columns.at(next++), length_width_);
  text += kGap;
  if (show_batch_) {
    text += pad_left(columns.at(next++), kBatchWidth);
    text += kGap;
  }
  text += pad_right(columns.at(next++), name_width_);
  for (const Column& column : kFigures) {
    text += kGap;
    text += pad_left(columns.at(next++), column.width);
  }
  text += kGap;
  text += last;
  return text + "\n";
}

std::string Table::heading(const Section& section) const {
  std::vector<std::string> titles{"N"};
  if (show_batch_) titles.emplace_back("batch");
  titles.emplace_back("implementation");
  for (const Column& column : kFigures) titles.emplace_back(column.title);
  std::string header = line(titles, "verdict");
  header.pop_back();
  return fmt::format("{}{}\n{}\n", current_ == nullptr ? "" : "\n",
                     paint(section.title, Ink::bold, style_), paint(header, Ink::dim, style_));
}

std::vector<std::string> Table::figures(const Cell& cell) {
  std::vector<std::string> columns{length_label(cell.problem)};
  if (show_batch_) columns.push_back(fmt::format("{}", cell.problem.batch));
  columns.push_back(cell.implementation);

  // No time beside a result that is not right.
  const bool timed = cell.status == Status::ok && cell.time.has_value();
  std::string time = "-";
  if (timed) {
    time = format_seconds(cell.time->median_s);
    if (cell.time->too_short) time += '*';
    if (cell.time->throttled) time += '!';
    const bool invalid = !impossibilities(cell).empty();
    if (invalid) time += '?';
    marked_invalid_ = marked_invalid_ || invalid;
    marked_short_ = marked_short_ || cell.time->too_short;
    if (cell.time->throttled) note_throttling(*cell.time);
  }
  columns.push_back(time);
  columns.push_back(timed ? spread(*cell.time) : "-");
  columns.push_back(timed && cell.speedup_over_naive
                        ? format_significant(cell.speedup_over_naive->ratio) + "x"
                        : "-");

  columns.emplace_back(timed && cell.bound ? to_string(cell.bound->bound_by) : "-");

  const std::optional<HbmBytes> bytes = hbm_bytes(cell);
  const bool modelled = bytes && !bytes->measured;
  marked_model_ = marked_model_ || modelled;
  columns.push_back(bytes ? fmt::format("{}{}", modelled ? "~" : "", format_bytes(bytes->bytes))
                          : "-");

  const bool sized = cell.memory.peak_bytes > 0;
  const auto size = [&](std::int64_t value) {
    return sized ? format_bytes(static_cast<double>(value)) : "-";
  };
  columns.push_back(size(cell.memory.workspace_bytes));
  columns.push_back(size(cell.memory.peak_bytes));
  return columns;
}

void Table::note_throttling(const TimeStats& time) {
  marked_throttled_ = true;
  if (time.device_state && time.device_state->throttle_reasons) {
    const auto& reasons = *time.device_state->throttle_reasons;
    throttle_reasons_.insert(reasons.begin(), reasons.end());
  }
}

std::string Table::row(const Cell& cell) {
  std::string text;
  for (const Section& section : sections_) {
    if (std::find(section.problems.begin(), section.problems.end(), cell.problem) ==
        section.problems.end()) {
      continue;
    }
    if (&section != current_) text = heading(section);
    current_ = &section;
    break;
  }
  return text + line(figures(cell), paint(outcome(cell), ink_of(cell.status), style_));
}

std::string Table::footnotes() const {
  std::string text;
  if (marked_short_) text += "  * too short to be told from an empty launch\n";
  if (marked_throttled_) {
    text += fmt::format("  ! the clock was well under the device's maximum{}{}\n",
                        throttle_reasons_.empty() ? "" : ": ", fmt::join(throttle_reasons_, ", "));
  }
  if (marked_invalid_) text += "  ? more than the device can do: not to be believed\n";
  if (marked_model_) text += "  ~ modelled, not counted\n";
  return text;
}

std::string summary(const Run& run) {
  std::array<std::size_t, 6> counts{};
  std::size_t exact = 0;
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  for (const Cell& cell : run.cells) {
    ++counts.at(static_cast<std::size_t>(cell.status));
    if (cell.exactness && cell.exactness->verdict == Verdict::exact) ++exact;
    if (cell.kind == Kind::fused && cell.status == Status::ok && cell.speedup_over_naive) {
      least = std::min(least, cell.speedup_over_naive->ratio);
      most = std::max(most, cell.speedup_over_naive->ratio);
    }
  }
  std::string text = fmt::format("{} {}: {} exact", run.cells.size(),
                                 run.cells.size() == 1 ? "cell" : "cells", exact);
  for (const Status status : {Status::unsupported, Status::out_of_memory, Status::wrong,
                              Status::failed, Status::not_run}) {
    const std::size_t number = counts.at(static_cast<std::size_t>(status));
    if (number > 0) text += fmt::format(", {} {}", number, words(status));
  }
  if (most > 0) {
    const std::string low = format_significant(least);
    const std::string high = format_significant(most);
    text += low == high ? fmt::format("; fused is {}x as fast as naive", low)
                        : fmt::format("; fused is {}x to {}x as fast as naive", low, high);
  }
  if (run.interrupted) text += "; interrupted";
  return text;
}

}  // namespace flashbench
