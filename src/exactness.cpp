#include "exactness.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "error_model.h"

// How far from the truth an exact algorithm's output may lie.
//
// One row, one column. Inputs are as stored; everything without a hat is exact. Scores
// s_j = scale q.k_j, weights p_j = exp(s_j - m) / l, output o = sum p_j v_j. u, u_S, u_P, u_out are
// the unit roundoffs of f32 arithmetic, of the stored scores, of the stored weights and of the
// output.
//
// 1. Scores. A kernel's s_j has the error of an f32 dot product, of scaling it and of subtracting
// the
//    maximum, and of storing it where it does so. The dot product's worst case is d u sum|q_c k_c|;
//    with rounding errors of mean zero it is c sqrt(d) u sum|q_c k_c| but for a negligible
//    probability (Higham and Mary, SIAM J. Sci. Comput. 41, 2019), which also covers the 2 u d / 16
//    of tensor cores, which add 16 products at a time and truncate (Fasi, Higham, Mikaitis and
//    Pranesh, PeerJ CS 7, 2021). The exponential adds a relative error of some u, and the rounding
//    of its argument (m - s_j) u. Together |delta_j| <= error_model.h's bound. Online softmax
//    (Milakov and Gimelshein, 2018) reaches exp(s_j - m) as a product of factors whose arguments
//    sum to s_j - m, all of one sign: the same bound.
// 2. Normalised weights. Multiplying weight j by exp(t_j), |t_j| <= delta_j, moves the output to
// o', with
//      o' - o = sum p_j (exp(t_j) - 1) (v_j - o) / sum p_j exp(t_j),
//    hence |o' - o| <= sum p_j (exp(delta_j) - 1) |v_j - o| / sum p_j exp(-delta_j): nothing is
//    dropped, however large delta_j. |v_j - o| in the place of |v_j| is what makes it sharp. A
//    factor common to all weights cancels, so one may count the errors relative to that of the
//    largest score: its own is then 0 and the others' delta_j + delta_max. That is sharper where
//    errors are large (a softmax that is nearly one-hot at scores of hundreds), and looser by up to
//    2 where they are small; it is used where delta_max > kAnchorError. Whatever the weights, |o' -
//    o| <= max |v_j - o|.
// 3. Weights and sums. Rounding p_j to its storage adds u_P sum p_j |v_j|, and eta_P sum |v_j|
// where it
//    underflows, divided by l where p_j is stored before normalisation. The f32 sums over n keys
//    add a sum p_j |v_j|: a = u (c + c' sqrt(n)) with rounding to nearest (Higham and Mary again, n
//    single additions), a = u (c + c'' n / 16) on tensor cores, where truncation has a mean.
//    Products of subnormal values err by 2^-150 each.
//    The log-sum-exp moves by at most log sum p_j exp(delta_j) + a, and its own rounding.
// 4. The output is rounded: B <- B + u_out (|o| + B) + eta_out.
//
// bound_ratio = max |error| / B. It holds for any data, and in 16 bits right kernels reach 0.25 to
// 0.85 of it, for the output's own rounding dominates. But the sum of the roundings of n weights is
// about u_P sqrt(sum p_j^2 v_j^2) / sqrt(6), not u_P sum p_j |v_j|: a factor of sqrt(n), which is
// where a kernel could hide that drops 60 keys of 8192. Hence row_noise: rms(error) / rms(expected
// error) of a row, the expected variance being that of independent roundings (a relative rounding
// error has variance u^2 / 6 on average over the significand), of scores and weights and sums and
// output alike. The largest of many such figures wanders: rows are pooled until a figure rests on
// 64 elements, and the limit is the quantile of chi square over its degrees of freedom that the
// largest of so many figures exceeds once in 10^6 judgements (Wilson and Hilferty, PNAS 17, 1931),
// times a factor for what the model leaves out: a row that rests on one or two keys has as many
// errors, not 64, and each may be sqrt(6) times its rms.

namespace flashbench {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr double kSumConstant = 8.0;      // c: final division, a last rescaling, the sum l itself
constexpr double kSumFactor = 2.0;        // c'
constexpr double kTensorSumFactor = 2.0;  // c''
constexpr double kSumNoise = 0.5;         // the rms of the same, in the place of c' and c''
constexpr double kFlushedWeight = 0x1p-126;  // f32 exponentials below may be flushed to 0
constexpr double kF32Underflow = 0x1p-150;

constexpr double kNoiseFactor = 2.6;
constexpr double kFalseAlarm = 1e-6;
constexpr std::int64_t kPoolElements = 64;

/// z with P(Z > z) = tail for a standard normal Z, by bisection; tail in (0, 0.5].
double normal_quantile(double tail) {
  double low = 0.0;
  double high = 40.0;
  for (int i = 0; i < 100; ++i) {
    const double middle = 0.5 * (low + high);
    (0.5 * std::erfc(middle / std::numbers::sqrt2) > tail ? low : high) = middle;
  }
  return high;
}

/// Of chi square over its degrees of freedom (Wilson and Hilferty).
double mean_square_quantile(double freedom, double tail) {
  const double spread = 2.0 / (9.0 * freedom);
  return std::pow(1.0 - spread + normal_quantile(tail) * std::sqrt(spread), 3.0);
}

/// Spacing of `dtype` at |x|.
double ulp(double x, Dtype dtype) {
  int exponent = 0;
  std::frexp(std::fabs(x), &exponent);
  const double spacing = std::ldexp(2.0 * unit_roundoff(dtype), exponent - 1);
  return std::max(spacing, 2.0 * underflow_unit(dtype));
}

/// What an implementation's arithmetic makes of the oracle's sums.
class ErrorBudget {
 public:
  ErrorBudget(const Problem& problem, const Arithmetic& arithmetic, const OracleRows& truth)
      : arithmetic_(arithmetic), truth_(truth) {
    const bool scores_in_dtype = arithmetic.scores_in_dtype && problem.dtype != Dtype::f32;
    scores_ = &truth.scores[static_cast<std::size_t>(scores_in_dtype ? ScoreStorage::dtype
                                                                     : ScoreStorage::f32)];
    const Dtype weights = arithmetic.weights_in_dtype ? problem.dtype : Dtype::f32;
    weight_roundoff_ = unit_roundoff(weights);
    weight_underflow_ = std::max(underflow_unit(weights), kFlushedWeight);
    if (weights == Dtype::f16) weight_underflow_ = underflow_unit(Dtype::f16);
    out_roundoff_ = unit_roundoff(problem.dtype);
    out_underflow_ = underflow_unit(problem.dtype);
  }

  /// Of row `row` of the truth, which sees `visible` keys.
  void set_row(std::size_t row, std::int64_t visible) {
    visible_ = static_cast<double>(visible);
    const double l = arithmetic_.weights_normalised ? 1.0 : truth_.row_sum[row];
    flushed_ = weight_underflow_ / l;
    products_ = visible_ * kF32Underflow / l;
    const double steps = arithmetic_.tensor_core_sums ? visible_ / 16.0 : std::sqrt(visible_);
    const double factor = arithmetic_.tensor_core_sums ? kTensorSumFactor : kSumFactor;
    sums_ = kF32Roundoff * (kSumConstant + factor * steps);
    sums_noise_ = kF32Roundoff * (1.0 + kSumNoise * steps);
  }

  /// The bound of |error| of element `i` of [rows, head_dim].
  double bound(std::size_t i) const {
    const double moved = std::min(scores_->bound[i], truth_.value_distance[i]);
    const double relative = weight_roundoff_ + sums_;
    const double before = moved * (1.0 + relative) + relative * truth_.weight_sum[i] +
                          flushed_ * truth_.value_sum[i] + products_;
    return before + out_roundoff_ * (std::fabs(truth_.out[i]) + before) + out_underflow_;
  }

  /// The bound of the error of the log-sum-exp of row `row`, the one that was set.
  double lse_bound(std::size_t row) const {
    return scores_->lse_bound[row] + sums_ +
           kF32Roundoff * kScoreFactor * (1.0 + std::fabs(truth_.lse[row]));
  }

  /// The expected square of the error of element `i`.
  double variance(std::size_t i) const {
    const double weights = truth_.weight_square[i];
    const double o = truth_.out[i];
    const double underflow = flushed_ * truth_.value_sum[i];
    return (weight_roundoff_ * weight_roundoff_ * weights + out_roundoff_ * out_roundoff_ * o * o) /
               6.0 +
           scores_->variance[i] + sums_noise_ * sums_noise_ * (weights + o * o) +
           underflow * underflow / visible_ + products_ * products_ +
           out_underflow_ * out_underflow_ / 3.0;
  }

 private:
  const Arithmetic& arithmetic_;
  const OracleRows& truth_;
  const ScorePerturbation* scores_ = nullptr;
  double weight_roundoff_ = 0;
  double weight_underflow_ = 0;
  double out_roundoff_ = 0;
  double out_underflow_ = 0;
  double visible_ = 0;
  double flushed_ = 0;
  double products_ = 0;
  double sums_ = 0;
  double sums_noise_ = 0;
};

/// Mean squares of errors and of what is expected, over pools of rows of at least kPoolElements.
class NoiseMeter {
 public:
  void add_row(double error_square, double expected_square, std::int64_t elements) {
    error_ += error_square;
    expected_ += expected_square;
    elements_ += elements;
    if (elements_ >= kPoolElements) close_pool();
  }

  /// The largest pool's rms(error) / rms(expected); 0 / 0 is 0.
  double largest() {
    // What is left over is too little to stand alone, unless there is nothing else.
    if (elements_ > 0 && pools_ == 0) close_pool();
    return largest_;
  }

  double limit() const {
    if (pools_ == 0) return kNoiseFactor;
    const double tail = kFalseAlarm / static_cast<double>(pools_);
    return kNoiseFactor *
           std::sqrt(mean_square_quantile(static_cast<double>(smallest_pool_), tail));
  }

 private:
  void close_pool() {
    const double ratio =
        expected_ > 0 ? std::sqrt(error_ / expected_) : (error_ > 0 ? kInfinity : 0);
    largest_ = std::max(largest_, ratio);
    smallest_pool_ = pools_ == 0 ? elements_ : std::min(smallest_pool_, elements_);
    ++pools_;
    error_ = expected_ = 0;
    elements_ = 0;
  }

  double error_ = 0;
  double expected_ = 0;
  std::int64_t elements_ = 0;
  std::int64_t pools_ = 0;
  std::int64_t smallest_pool_ = 0;
  double largest_ = 0;
};

/// |error| / bound, infinite where no error is allowed or the one is not a number and the other is.
double error_ratio(double got, double want, double bound, double largest_finite) {
  if (!std::isfinite(want)) return std::isfinite(got) ? kInfinity : 0.0;
  if (!std::isfinite(got)) {
    // Rounding may carry an output past the largest number.
    const bool overflows = std::fabs(want) + bound > largest_finite && std::isinf(got) &&
                           std::signbit(got) == std::signbit(want);
    return overflows ? 1.0 : kInfinity;
  }
  const double error = std::fabs(got - want);
  if (error == 0.0) return 0.0;
  return bound > 0.0 ? error / bound : kInfinity;
}

std::string place(const RowId& row) {
  return fmt::format("batch {}, head {}, row {}", row.batch, row.head, row.row);
}

void conclude(Exactness& exactness) {
  exactness.verdict = Verdict::exact;
  const WorstElement& worst = exactness.worst;
  const std::string where = fmt::format("{}, column {}", place(worst.row), worst.column);
  if (!(exactness.bound_ratio <= 1.0)) {
    exactness.verdict = Verdict::not_exact;
    if (std::isfinite(exactness.bound_ratio)) {
      exactness.reason =
          fmt::format("error {:.3g} at {} is {:.3g} times its bound",
                      std::fabs(worst.got - worst.want), where, exactness.bound_ratio);
    } else {
      exactness.reason =
          fmt::format("{} at {} where the truth is {}", worst.got, where, worst.want);
    }
    return;
  }
  if (exactness.row_noise && !(*exactness.row_noise <= *exactness.row_noise_limit)) {
    exactness.verdict = Verdict::not_exact;
    exactness.reason =
        fmt::format("a row's errors are {:.3g} times the expected rounding (limit {:.3g})",
                    *exactness.row_noise, *exactness.row_noise_limit);
  }
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::exact: return "exact";
    case Verdict::not_exact: return "not_exact";
    case Verdict::not_checked: return "not_checked";
  }
  return "?";
}

Exactness judge(const Problem& problem, const Arithmetic& arithmetic, const OracleRows& truth,
                std::span<const double> got, bool generic) {
  Exactness exactness;
  exactness.rows_total = problem.rows();
  if (truth.rows.empty()) {
    exactness.reason = "no rows were checked";
    return exactness;
  }
  ErrorBudget budget(problem, arithmetic, truth);
  NoiseMeter noise;
  const double largest_finite = max_finite(problem.dtype);
  const auto d = static_cast<std::size_t>(problem.head_dim);
  double error_square = 0;
  double want_square = 0;
  bool first = true;
  for (std::size_t r = 0; r < truth.rows.size(); ++r) {
    const std::int64_t visible = problem.visible_keys(truth.rows[r].row);
    if (visible > 0 && truth.lse[r] == -kInfinity) continue;
    ++exactness.rows_checked;
    if (visible > 0) budget.set_row(r, visible);
    double row_error = 0;
    double row_expected = 0;
    for (std::size_t c = 0; c < d; ++c) {
      const std::size_t i = r * d + c;
      const double want = truth.out[i];
      const double bound = visible > 0 ? budget.bound(i) : 0.0;
      const double ratio = error_ratio(got[i], want, bound, largest_finite);
      if (first || ratio > exactness.bound_ratio) {
        exactness.bound_ratio = ratio;
        exactness.worst = {truth.rows[r], static_cast<std::int64_t>(c), got[i], want, bound};
        first = false;
      }
      if (!std::isfinite(want) || !std::isfinite(got[i])) continue;
      const double error = std::fabs(got[i] - want);
      exactness.max_abs = std::max(exactness.max_abs, error);
      exactness.max_ulp = std::max(exactness.max_ulp, error / ulp(want, problem.dtype));
      row_error += error * error;
      want_square += want * want;
      if (visible > 0) row_expected += budget.variance(i);
    }
    error_square += row_error;
    if (visible > 0) noise.add_row(row_error, row_expected, problem.head_dim);
  }
  if (error_square > 0) exactness.rel_frobenius = std::sqrt(error_square / want_square);
  if (generic) {
    exactness.row_noise = noise.largest();
    exactness.row_noise_limit = noise.limit();
  }
  conclude(exactness);
  return exactness;
}

void judge_lse(const Problem& problem, const Arithmetic& arithmetic, const OracleRows& truth,
               std::span<const double> got, Exactness& exactness) {
  ErrorBudget budget(problem, arithmetic, truth);
  exactness.lse_bound_ratio = 0.0;
  for (std::size_t r = 0; r < truth.rows.size(); ++r) {
    const std::int64_t visible = problem.visible_keys(truth.rows[r].row);
    const double want = truth.lse[r];
    double ratio = 0;
    if (want == -kInfinity) {
      // Of scores that are all -infinity, as of none, it is -infinity or nothing.
      ratio = got[r] == want || (visible > 0 && std::isnan(got[r])) ? 0.0 : kInfinity;
    } else {
      if (std::isfinite(want)) budget.set_row(r, visible);
      const double bound = std::isfinite(want) ? budget.lse_bound(r) : 0.0;
      ratio = error_ratio(got[r], want, bound, max_finite(Dtype::f32));
    }
    if (ratio <= *exactness.lse_bound_ratio) continue;
    exactness.lse_bound_ratio = ratio;
    if (ratio > 1.0 && exactness.verdict == Verdict::exact) exactness.verdict = Verdict::not_exact;
    if (ratio > 1.0) {
      exactness.reason = fmt::format("log-sum-exp {} at {} where the truth is {}", got[r],
                                     place(truth.rows[r]), want);
    }
  }
}

std::optional<std::string> compare_outputs(const Problem& problem, const OutputScan& scan,
                                           std::span<const double> got,
                                           std::span<const double> reference_got) {
  // Of a group of right rows |a - b|^2 / |b|^2 spreads about as chi square over at least 64 degrees
  // of freedom does, and its mean varies between rows less than kNoiseFactor^2; so does the largest
  // sampled row's, which therefore bounds the mean.
  const auto d = static_cast<std::size_t>(problem.head_dim);
  const auto per_group = static_cast<std::size_t>(rows_per_group(problem.head_dim));
  double largest = 0;
  for (std::size_t first = 0; first < got.size(); first += per_group * d) {
    const std::size_t last = std::min(got.size(), first + per_group * d);
    double difference = 0;
    double norm = 0;
    for (std::size_t i = first; i < last; ++i) {
      if (!std::isfinite(got[i]) || !std::isfinite(reference_got[i])) continue;
      difference += (got[i] - reference_got[i]) * (got[i] - reference_got[i]);
      norm += reference_got[i] * reference_got[i];
    }
    if (norm > 0) largest = std::max(largest, difference / norm);
  }
  const double floor = unit_roundoff(problem.dtype);
  const double groups =
      std::max(1.0, static_cast<double>(problem.rows()) / static_cast<double>(per_group));
  const double quantile = mean_square_quantile(kPoolElements, kFalseAlarm / groups);
  const double limit = kNoiseFactor * std::sqrt(quantile * std::max(largest, floor * floor));
  if (scan.max_row_difference <= limit) return std::nullopt;
  return fmt::format("row {} of batch {}, head {} is off by {:.2g} (limit {:.2g}) from",
                     scan.worst_row.row, scan.worst_row.batch, scan.worst_row.head,
                     scan.max_row_difference, limit);
}

}  // namespace flashbench
