#pragma once

#include <string>
#include <string_view>

namespace flashbench {

/// A document that grows during a run and must be whole whenever anyone looks.
///
/// A regular or new file is replaced atomically by each write(): the text goes to a temporary file
/// beside it, both file and directory are synced, and a rename puts it in place; a kill at any
/// moment leaves the old text or the new one. Symbolic links are followed, permissions and owner
/// kept.
///
/// Anything else ("-", a pipe, a FIFO, a terminal, what stdout or stderr is redirected to) cannot
/// be replaced: write() does nothing and finish() writes the text in place, once.
class AtomicFile {
 public:
  /// Throws Error (path and errno's text) when `path` can clearly not be written: a directory, a
  /// missing parent, no permission. Creates nothing.
  explicit AtomicFile(std::string path);

  /// Throws Error with path and errno's text; what stood in the file before stands there still.
  void write(std::string_view text);
  void finish(std::string_view text);

  /// The text will appear on standard output, so nothing else should.
  bool is_stdout() const { return in_place_ && descriptor_ == 1; }

 private:
  void replace(std::string_view text) const;
  void write_in_place(std::string_view text) const;

  std::string path_;    ///< as given, for messages
  std::string target_;  ///< with symbolic links resolved
  bool in_place_ = false;
  int descriptor_ = -1;  ///< in place: an open descriptor to write to, or -1 to open target_
};

}  // namespace flashbench
