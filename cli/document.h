#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "atomic_file.h"

namespace flashbench {

/// Where a command's JSON document goes, if anywhere, and where that leaves what people read.
class Document {
 public:
  /// `path`: nothing for no document. Throws Error where it can clearly not be written.
  explicit Document(std::optional<std::string> path);

  bool wanted() const { return file_.has_value(); }
  /// stdout, or stderr where the document takes stdout.
  std::FILE* text_stream() const;

  /// The document as it stands, where it can be replaced later. Throws Error.
  void begin(std::string_view text);
  /// The same; a failure is said on stderr once, and is no reason to stop: a disk may have room
  /// again.
  void update(std::string_view text);
  void finish(std::string_view text);

  /// The last update or finish did not reach its place.
  bool lost() const { return lost_; }
  /// "; written to run.json", or nothing.
  std::string note() const;

 private:
  template <typename Write>
  void guarded(const Write& write, bool last);

  std::optional<std::string> path_;
  std::optional<AtomicFile> file_;
  bool lost_ = false;
};

}  // namespace flashbench
