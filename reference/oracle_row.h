#pragma once

#include <cmath>

#include "error_model.h"
#include "host_device.h"

// The arithmetic of one row of the oracle, the same on the CPU and on CUDA. Two passes over the
// keys: the first finds m, l and o; the second, which knows them, sums the spreads round o.

namespace flashbench {

/// What the first pass finds of a row's scores.
struct RowPeak {
  double m = -INFINITY;    ///< largest visible score
  double dot = 0;          ///< scale * sum_c |q_c k_jc| of that key
  double l = 0;            ///< sum exp(s_j - m)
  long long key = -1;      ///< the first key with that score
  bool undefined = false;  ///< a visible score is NaN or +infinity: the whole row is NaN
};

FLASHBENCH_HOST_DEVICE inline void observe_score(RowPeak& peak, double s, double dot,
                                                 long long key) {
  if (!(s < INFINITY)) {
    peak.undefined = true;
  } else if (s > peak.m) {
    peak.m = s;
    peak.dot = dot;
    peak.key = key;
  }
}

/// Of the peaks of two sets of keys, that of their union, l aside.
FLASHBENCH_HOST_DEVICE inline RowPeak merge_peaks(const RowPeak& a, const RowPeak& b) {
  const bool take_b = b.m > a.m || (b.m == a.m && b.key >= 0 && (a.key < 0 || b.key < a.key));
  RowPeak merged = take_b ? b : a;
  merged.undefined = a.undefined || b.undefined;
  return merged;
}

/// The row's constants in the second pass, for one ScoreStorage.
struct Anchor {
  double storage = 0;  ///< unit roundoff of the stored scores, 0 for f32
  double error = 0;  ///< error of the largest score where errors are counted relative to it, else 0
};

FLASHBENCH_HOST_DEVICE inline Anchor make_anchor(const RowPeak& peak, double root_dim,
                                                 double storage) {
  const double error = score_error(root_dim, peak.dot, peak.m, 0.0, storage).bound;
  return {storage, error > kAnchorError ? error : 0.0};
}

/// One key's factors in the sums of one ScoreStorage.
struct KeyPerturbation {
  double growth = 0;  ///< p (exp(delta) - 1)
  double floor = 0;   ///< p exp(-delta)
  double noise = 0;   ///< p^2 E[delta^2]
};

/// `weight`: exp(s - m) / l.
FLASHBENCH_HOST_DEVICE inline KeyPerturbation perturb_key(const RowPeak& peak, const Anchor& anchor,
                                                          double root_dim, double weight, double s,
                                                          double dot, long long key) {
  if (!(s > -INFINITY)) return {};
  const double fall = peak.m - s;
  const ScoreError error = score_error(root_dim, dot, s, fall, anchor.storage);
  const bool is_anchor = anchor.error > 0 && key == peak.key;
  const double delta = is_anchor ? 0.0 : error.bound + anchor.error;
  const double noise = weight * weight * error.variance;
  if (delta <= 0.125) {
    return {weight * small_expm1(delta), weight * (1.0 + small_expm1(-delta)), noise};
  }
  // Finite where the key's weight is gone whatever its score's error; and never infinite, so that a
  // key whose value is o moves nothing.
  const double grown = exp(delta - fall) / peak.l - weight;
  return {grown < 1e300 ? grown : 1e300, exp(-fall - delta) / peak.l, noise};
}

/// The sums of one row and ScoreStorage in the second pass.
struct RowSums {
  double growth = 0;
  double floor = 0;
};

/// How far the row's log-sum-exp may move.
FLASHBENCH_HOST_DEVICE inline double lse_bound(const RowSums& sums, const Anchor& anchor) {
  return log1p(sums.growth) + anchor.error;
}

/// The sums of one row and column in the second pass.
struct ColumnSums {
  double weight_sum = 0;
  double weight_square = 0;
  double value_sum = 0;
  double value_distance = 0;
  double bound[2] = {0, 0};
  double variance[2] = {0, 0};
};

/// The sums of the keys of both.
FLASHBENCH_HOST_DEVICE inline void add_sums(ColumnSums& into, const ColumnSums& from) {
  into.weight_sum += from.weight_sum;
  into.weight_square += from.weight_square;
  into.value_sum += from.value_sum;
  if (from.value_distance > into.value_distance) into.value_distance = from.value_distance;
  for (int t = 0; t < 2; ++t) {
    into.bound[t] += from.bound[t];
    into.variance[t] += from.variance[t];
  }
}

}  // namespace flashbench
