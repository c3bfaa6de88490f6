#pragma once

#include <cmath>

#include "host_device.h"

// The error of one scaled score as an attention kernel computes it. Shared by the oracles, which
// need it key by key, and exactness.cpp, which has the derivation of the whole bound and what the
// constants were calibrated on.

namespace flashbench {

/// Where a kernel keeps its scores between the two products.
enum class ScoreStorage : unsigned char { f32, dtype };

inline constexpr double kF32Roundoff = 0x1p-24;
inline constexpr double kDotFactor = 4.0;    ///< per sqrt(head_dim): an f32 dot product
inline constexpr double kScoreFactor = 4.0;  ///< scaling, log2(e), subtraction of the maximum
inline constexpr double kExpFactor = 4.0;    ///< exponential, and the rounding of its argument

/// Of one score s. `dot`: scale * sum_c |q_c k_c|; `fall`: m - s >= 0 with m the row's maximum;
/// `storage`: unit roundoff of the stored scores, 0 where they stay in f32.
struct ScoreError {
  double bound;     ///< of |error of s + relative error of exp(s - m)|
  double variance;  ///< expected square of the same
};

FLASHBENCH_HOST_DEVICE inline ScoreError score_error(double root_dim, double dot, double s,
                                                     double fall, double storage) {
  const double magnitude = fabs(s);
  const double relative = kF32Roundoff * (kDotFactor * root_dim * dot + kScoreFactor * magnitude +
                                          kExpFactor * (1.0 + fall));
  // Random errors: a dot product's partial sums walk, so that its error stays near u * dot / 2, or
  // u * dot where few large terms make up most of it (measured: outlier channels at head_dim 192);
  // the others are single roundings of quantities of that size.
  const double walk = dot + 0.5 * magnitude + (1.0 + fall);
  return {relative + storage * magnitude, kF32Roundoff * kF32Roundoff * walk * walk +
                                              storage * storage * magnitude * magnitude / 6.0};
}

/// exp(x) - 1 for |x| <= 1/8 to 2e-13 of itself, by its Taylor series.
FLASHBENCH_HOST_DEVICE inline double small_expm1(double x) {
  double sum = 1.0 + x / 9.0;
  for (int k = 8; k > 1; --k) sum = 1.0 + x * sum / k;
  return x * sum;
}

/// Above this error of the largest score, errors are counted relative to that score's (see
/// exactness.cpp).
inline constexpr double kAnchorError = 0.05;

}  // namespace flashbench
