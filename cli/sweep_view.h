#pragma once

#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "document.h"
#include "options.h"
#include "progress.h"
#include "sweep.h"
#include "table.h"

namespace flashbench {

/// Shows a sweep as it goes: the table's rows and, at the end, curves and summary on stdout (on
/// stderr where the document takes stdout), progress on stderr, the document in its file.
class SweepView : public SweepObserver {
 public:
  /// `names`: every implementation that may appear. `output`: where the document goes, if anywhere.
  SweepView(const SweepRequest& request, std::vector<std::string> names,
            const std::optional<std::string>& output, CurveChoice curves);

  /// Writes the document, so that a path that cannot be written ends the run before it costs
  /// anything.
  void begin(const Run& run, std::size_t total_cells) override;
  void started(const Problem& problem, std::string_view implementation, std::size_t index,
               std::size_t total_cells) override;
  void finished(const Run& run, std::size_t total_cells) override;
  void warned(const Run& run) override;
  void end(const Run& run) override;

  /// The document could not be written at the end.
  bool lost_document() const { return document_.lost(); }

 private:
  void print(std::string_view text) const;
  void show_references();

  Document document_;
  std::FILE* out_;
  Style style_;
  CurveChoice curves_;
  Table table_;
  Progress progress_;
  const Run* run_ = nullptr;  ///< from begin() to end()
  bool shown_references_ = false;
  bool in_problem_ = false;
};

}  // namespace flashbench
