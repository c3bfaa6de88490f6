#include "terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "error.h"

namespace flashbench {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view{} : std::string_view{value};
}

}  // namespace

bool is_terminal(std::FILE* stream) {
  return ::isatty(::fileno(stream)) == 1;
}

Style style_of(std::FILE* stream) {
  constexpr int kWidest = 100;
  Style style;
  if (!is_terminal(stream)) return style;
  const std::string_view term = environment("TERM");
  const bool capable = !term.empty() && term != "dumb";
  style.colour = capable && environment("NO_COLOR").empty();
  style.braille = capable;
  winsize size{};
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    style.width = std::min<int>(size.ws_col, kWidest);
  }
  return style;
}

void flush_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    throw Error(fmt::format("cannot write standard output: {}", std::strerror(errno)));
  }
}

}  // namespace flashbench
