#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace flashbench {

/// Figures for people, at three significant digits; the same bytes in every locale.

/// "417 ns", "1.23 us", "9.88 ms", "2.50 s". Non-finite or negative: "-".
std::string format_seconds(double seconds);
/// Powers of 1024: "0 B", "512 B", "1.50 KiB", "139 GiB".
std::string format_bytes(double bytes);
/// Exact where it is a multiple of a power of 1024 ("512", "16k", "1M"), else in digits ("1000").
std::string format_length(std::int64_t n);
/// Digits in groups of three: "262 144".
std::string format_grouped(std::int64_t n);
/// A duration to be waited for: "8 s", "2 min 05 s", "1 h 02 min".
std::string format_wait(double seconds);
/// Three significant digits, no exponent: "0.123", "12.3", "1230".
std::string format_significant(double value);
/// Columns that UTF-8 text takes on a terminal, one for each code point.
std::size_t display_width(std::string_view text);

}  // namespace flashbench
