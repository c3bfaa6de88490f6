#pragma once

#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cell.h"
#include "section.h"
#include "style.h"

namespace flashbench {

/// The table of a sweep, row by row as cells finish. Columns keep their width, so all that a row
/// may hold must be known at the start.
class Table {
 public:
  /// `implementations`: every name that a cell may carry.
  Table(std::span<const Problem> problems, std::span<const std::string> implementations,
        Style style);

  /// Lines for a cell, each ended by a newline: its row, under a heading where a section begins.
  std::string row(const Cell& cell);
  /// What the marks in the rows so far mean; empty where there were none.
  std::string footnotes() const;

 private:
  std::string heading(const Section& section) const;
  std::vector<std::string> figures(const Cell& cell);
  void note_throttling(const TimeStats& time);
  std::string line(const std::vector<std::string>& columns, std::string_view last) const;

  Style style_;
  std::vector<Section> sections_;
  bool show_batch_ = false;
  std::size_t length_width_ = 0;
  std::size_t name_width_ = 0;
  const Section* current_ = nullptr;
  bool marked_short_ = false;
  bool marked_model_ = false;
  bool marked_throttled_ = false;
  std::set<std::string> throttle_reasons_;  ///< of the marked ones
  bool marked_invalid_ = false;
};

/// The outcome of a cell in words: "exact", "exact, 256 of 262 144 rows", "out of memory: ...".
std::string outcome(const Cell& cell);

/// One line on a whole run: cells by status, and how much faster the fused ones were.
std::string summary(const Run& run);

}  // namespace flashbench
