#include "axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <system_error>
#include <unordered_set>

#include "error.h"

namespace flashbench {
namespace {

constexpr std::string_view kCountSyntax = "a positive integer, with k or M for powers of 1024";

[[noreturn]] void refuse(std::string_view option, std::string_view token, std::string_view fault,
                         std::string_view accepted) {
  throw UsageError(
      fmt::format("{}: {} {}; accepted: {}", option, in_quotes(token), fault, accepted));
}

/// The fault of `token` as a count, or its value.
struct Count {
  std::int64_t value = 0;
  std::string_view fault;
};

Count read_count(std::string_view token) {
  if (token.empty()) return {0, "is empty"};
  if (token.front() == '-' || token.front() == '+') return {0, "has a sign"};
  std::int64_t multiplier = 1;
  std::string_view digits = token;
  if (digits.back() == 'k') multiplier = std::int64_t{1} << 10U;
  if (digits.back() == 'M') multiplier = std::int64_t{1} << 20U;
  if (multiplier != 1) digits.remove_suffix(1);
  std::int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, fault] = std::from_chars(digits.data(), end, value);
  if (fault == std::errc::result_out_of_range) return {0, "does not fit 64 bits"};
  if (fault != std::errc{}) return {0, "is not a number"};
  if (stop != end) return {0, "has something after the number"};
  if (value == 0) return {0, "is zero"};
  if (__builtin_mul_overflow(value, multiplier, &value)) return {0, "does not fit 64 bits"};
  return {value, {}};
}

/// first..last, first..last*factor or first..last+step.
class ValueRange {
 public:
  ValueRange(std::string_view option, std::string_view token) : option_(option), token_(token) {
    const std::size_t dots = token.find("..");
    std::string_view tail = token.substr(dots + 2);
    const std::size_t sign = tail.find_first_of("*+");
    first_ = bound(token.substr(0, dots), "the range's start");
    last_ = bound(tail.substr(0, sign), "the range's end");
    if (sign != std::string_view::npos) {
      adds_ = tail[sign] == '+';
      step_ = bound(tail.substr(sign + 1), adds_ ? "the range's step" : "the range's factor");
      if (!adds_ && step_ == 1) refuse(option, token, "has a factor of 1", kAxisSyntax);
    }
    if (last_ < first_) refuse(option, token, "is a descending range", kAxisSyntax);
  }

  template <typename Use>
  void for_each(const Use& use) const {
    std::int64_t value = first_;
    while (value <= last_) {
      use(value);
      const bool overflow = adds_ ? __builtin_add_overflow(value, step_, &value)
                                  : __builtin_mul_overflow(value, step_, &value);
      if (overflow) return;
    }
  }

 private:
  std::int64_t bound(std::string_view text, std::string_view what) const {
    const Count count = read_count(text);
    if (!count.fault.empty()) {
      refuse(option_, token_, fmt::format("is malformed: {} {}", what, count.fault), kAxisSyntax);
    }
    return count.value;
  }

  std::string_view option_;
  std::string_view token_;
  std::int64_t first_ = 1;
  std::int64_t last_ = 1;
  std::int64_t step_ = 2;
  bool adds_ = false;
};

}  // namespace

std::string in_quotes(std::string_view token) {
  constexpr std::size_t kLongest = 60;
  std::string text = "'";
  for (const char c : token.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20U || byte == 0x7fU) {
      text += fmt::format("\\x{:02x}", static_cast<unsigned>(byte));
    } else {
      text += c;
    }
  }
  if (token.size() > kLongest) text += "...";
  return text + "'";
}

std::vector<std::string> split_list(std::string_view option, std::string_view text,
                                    std::string_view accepted) {
  std::vector<std::string> tokens;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view token = text.substr(0, comma);
    if (token.empty()) {
      refuse(option, token,
             tokens.empty() && comma == std::string_view::npos ? "is an empty value"
                                                               : "is an empty value in the list",
             accepted);
    }
    tokens.emplace_back(token);
    if (comma == std::string_view::npos) return tokens;
    text.remove_prefix(comma + 1);
  }
}

std::vector<std::int64_t> parse_axis(std::string_view option, std::string_view text) {
  std::vector<std::int64_t> values;
  std::unordered_set<std::int64_t> seen;
  const auto add = [&](std::int64_t value) {
    if (!seen.insert(value).second) return;
    if (values.size() == kMaxAxisValues) {
      refuse(option, text, fmt::format("gives more than {} values", kMaxAxisValues), kAxisSyntax);
    }
    values.push_back(value);
  };
  for (const std::string& token : split_list(option, text, kAxisSyntax)) {
    if (token.find("..") != std::string::npos) {
      ValueRange(option, token).for_each(add);
      continue;
    }
    const Count count = read_count(token);
    if (!count.fault.empty()) refuse(option, token, count.fault, kAxisSyntax);
    add(count.value);
  }
  return values;
}

std::int64_t parse_count(std::string_view option, std::string_view text) {
  const Count count = read_count(text);
  if (!count.fault.empty()) refuse(option, text, count.fault, kCountSyntax);
  return count.value;
}

std::uint64_t parse_seed(std::string_view option, std::string_view text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, fault] = std::from_chars(text.data(), end, value);
  if (fault != std::errc{} || stop != end) {
    refuse(option, text, "is not a seed", "an integer from 0 to 18446744073709551615");
  }
  return value;
}

double parse_positive(std::string_view option, std::string_view text) {
  constexpr std::string_view kAccepted = "a positive number, like 2 or 0.5";
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, fault] = std::from_chars(text.data(), end, value);
  if (fault != std::errc{} || stop != end || !std::isfinite(value)) {
    refuse(option, text, "is not a number", kAccepted);
  }
  if (!(value > 0)) refuse(option, text, "is not positive", kAccepted);
  return value;
}

}  // namespace flashbench
