#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flashbench {

/// What an axis accepts, for messages and help.
inline constexpr std::string_view kAxisSyntax =
    "a list of positive integers and ranges, like 1024,4096 or 512..64k (doubling) or 512..64k*4 "
    "or "
    "512..4096+512; k and M are powers of 1024";

/// A list of values and inclusive ranges, in the order given, each value once:
///   1024,4096        512..65536 (doubling)        512..65536*4        512..4096+512
/// The suffixes k and M multiply by 1024 and 1024^2. A range ends at its last value that is not
/// above the end given. `option` is named in errors. Throws UsageError, naming the offending token
/// and what is accepted, for empty tokens, signs, zero, spaces, unknown suffixes, descending
/// ranges, steps that do not grow, values beyond 64 bits and more than kMaxAxisValues values.
std::vector<std::int64_t> parse_axis(std::string_view option, std::string_view text);
inline constexpr std::size_t kMaxAxisValues = 10'000;

/// One positive integer with an optional suffix, as in an axis.
std::int64_t parse_count(std::string_view option, std::string_view text);

/// A non-negative integer of 64 bits without suffix: seeds.
std::uint64_t parse_seed(std::string_view option, std::string_view text);

/// A positive, finite decimal number: seconds, percent.
double parse_positive(std::string_view option, std::string_view text);

/// The tokens between commas. Throws UsageError for an empty one; `accepted` tells what may stand
/// there.
std::vector<std::string> split_list(std::string_view option, std::string_view text,
                                    std::string_view accepted);

/// `token` in quotes, with bytes that would upset a terminal escaped and a long tail cut.
std::string in_quotes(std::string_view token);

}  // namespace flashbench
