#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace flashbench {

/// How Q, K and V are drawn; input_values.h has the values element by element. Unless said
/// otherwise Q, K and V are standard normal where a distribution does not change them. Scores are
/// meant at the default scale.
///
/// What is not finite. A score that the mask hides is discarded, so K may hold anything there: it
/// changes nothing. A NaN or +infinity among a row's visible scores makes the row NaN; -infinity
/// is a weight of 0; a value that is not finite makes its column so in every row that sees it. In
/// rows that do not see it, its weight of 0 times infinity may be NaN, as IEEE 754 has it: V must
/// be finite there, and is in all that is drawn.
enum class Distribution : std::uint8_t {
  normal,      ///< Q, K, V standard normal
  uniform,     ///< Q, K, V uniform in [-1, 1)
  large,       ///< Q, K normal times 12: scores spread over hundreds
  equal,       ///< K the same for all keys: all scores of a row are equal
  one_hot,     ///< each query matches one visible key, which takes nearly all weight
  decreasing,  ///< scores fall by 40 along the keys: the running maximum never moves
  increasing,  ///< scores rise by 40 along the keys: the running maximum moves with every tile
  offset,      ///< +-1024 common to all scores of a row, the sign by row
  sparse,      ///< seven of eight elements are 0, and every other value vector wholly
  outlier,     ///< one key channel in 16 has mean +-10, one value channel in 16 is 8 times larger
  denormal,    ///< Q, K, V as large as the dtype's subnormal numbers
  huge,        ///< K and V near the dtype's largest number, Q as small as keeps scores moderate
  ones,        ///< V = 1: the output is 1 whatever the weights
  position,    ///< V = the unit vector of the key's block of n_kv / head_dim keys
  non_finite_hidden,  ///< NaN and infinities in the last keys' K: only rows that see them may
                      ///< change
  non_finite_visible  ///< head 0: NaN in K of key 0; head 1: infinity in V of key 0, column 0;
                      ///< others finite
};

/// The name is the CLI's: '-' for '_'.
std::string_view to_string(Distribution distribution);
/// Throws UsageError naming what is accepted.
Distribution parse_distribution(std::string_view name);
/// All of them, in the order of the enumeration.
std::span<const Distribution> distributions();
/// Whether rounding errors are independent on such data, so that row_noise (exactness.h) is a
/// verdict.
bool is_generic(Distribution distribution);

struct InputSpec {
  Distribution distribution = Distribution::normal;
  std::uint64_t seed = 0;
};

}  // namespace flashbench
