#include "units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace flashbench {

std::string format_significant(double value) {
  if (!std::isfinite(value)) return "-";
  const double size = std::abs(value);
  if (size == 0) return "0";
  // Decimals by the size after rounding: 9.996 becomes 10.0, not 10.00.
  for (int decimals = 2; decimals > 0; --decimals) {
    const double ceiling = decimals == 2 ? 9.995 : 99.95;
    if (size < ceiling) {
      if (size >= 0.9995) return fmt::format("{:.{}f}", value, decimals);
      const int leading = static_cast<int>(std::ceil(-std::log10(size)));
      return fmt::format("{:.{}f}", value, std::min(leading + 2, 12));
    }
  }
  return fmt::format("{:.0f}", value);
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds == 0) return "0 s";
  if (seconds < 0.9995e-6) return format_significant(seconds * 1e9) + " ns";
  if (seconds < 0.9995e-3) return format_significant(seconds * 1e6) + " us";
  if (seconds < 0.9995) return format_significant(seconds * 1e3) + " ms";
  return format_significant(seconds) + " s";
}

std::string format_bytes(double bytes) {
  constexpr std::array<std::string_view, 7> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (!std::isfinite(bytes)) return "-";
  std::size_t unit = 0;
  while (std::abs(bytes) >= 999.5 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{:.0f} B", bytes);
  return fmt::format("{} {}", format_significant(bytes), kUnits.at(unit));
}

std::string format_length(std::int64_t n) {
  constexpr std::int64_t kKilo = 1 << 10;
  constexpr std::int64_t kMega = 1 << 20;
  if (n >= kMega && n % kMega == 0) return fmt::format("{}M", n / kMega);
  if (n >= kKilo && n % kKilo == 0) return fmt::format("{}k", n / kKilo);
  return fmt::format("{}", n);
}

std::string format_grouped(std::int64_t n) {
  std::string digits = fmt::format("{}", n);
  const std::size_t first = digits.front() == '-' ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ' ');
  }
  return digits;
}

std::string format_wait(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  const auto whole = static_cast<std::int64_t>(std::min(std::ceil(seconds), 1e15));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
  }));
}

}  // namespace flashbench
