#include "document.h"

#include <fmt/format.h>

#include <utility>

#include "error.h"

namespace flashbench {

Document::Document(std::optional<std::string> path) : path_(std::move(path)) {
  if (path_) file_.emplace(*path_);
}

std::FILE* Document::text_stream() const {
  return file_ && file_->is_stdout() ? stderr : stdout;
}

void Document::begin(std::string_view text) {
  if (file_) file_->write(text);
}

template <typename Write>
void Document::guarded(const Write& write, bool last) {
  if (!file_) return;
  try {
    write();
    lost_ = false;
  } catch (const Error& error) {
    if (!lost_ || last) fmt::print(stderr, "flashbench: {}\n", error.what());
    lost_ = true;
  }
}

void Document::update(std::string_view text) {
  guarded([&] { file_->write(text); }, false);
}

void Document::finish(std::string_view text) {
  guarded([&] { file_->finish(text); }, true);
}

std::string Document::note() const {
  return file_ && !lost_ && !file_->is_stdout() ? fmt::format("; written to {}", *path_) : "";
}

}  // namespace flashbench
