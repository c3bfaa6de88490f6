#pragma once

#include <string>
#include <string_view>

namespace flashbench {

/// What the place where text goes can show.
struct Style {
  bool colour = false;   ///< ANSI colours
  bool braille = false;  ///< curves in braille dots and line drawing, else plain ASCII
  int width = 80;        ///< columns
};

enum class Ink : int {
  plain = 0,
  bold = 1,
  dim = 2,
  red = 31,
  green = 32,
  yellow = 33,
  blue = 34,
  magenta = 35,
  cyan = 36
};

inline std::string paint(std::string_view text, Ink ink, const Style& style) {
  if (!style.colour || ink == Ink::plain || text.empty()) return std::string(text);
  return "\x1b[" + std::to_string(static_cast<int>(ink)) + "m" + std::string(text) + "\x1b[0m";
}

}  // namespace flashbench
