#include "diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <optional>
#include <set>

namespace flashbench {

namespace {

constexpr std::size_t kRows = 64;                // looked at for causes
constexpr double kUnexplained = 0.05;            // of the error's norm, at most, by a cause
constexpr std::int64_t kMostKeyTerms = 1 << 22;  // terms of the search for left-out keys, a row

struct Candidate {
  double unexplained = 1;
  std::string text;
};

/// The rows that are wrong, and what they hold.
class Examiner {
 public:
  Examiner(Oracle& oracle, const Problem& problem, const Operands& operands,
           const Arithmetic& arithmetic, const OracleRows& truth, std::span<const double> got)
      : oracle_(oracle),
        problem_(problem),
        operands_(operands),
        truth_(truth),
        got_(got),
        d_(static_cast<std::size_t>(problem.head_dim)) {
    for (std::size_t r = 0; r < truth.rows.size(); ++r) wrong_.push_back(is_wrong(arithmetic, r));
    choose_rows();
  }

  Diagnosis run() {
    Diagnosis diagnosis;
    find_places(diagnosis.places);
    if (rows_.empty()) return diagnosis;
    try_problems();
    try_heads();
    try_factors();
    try_left_out_keys();
    std::ranges::sort(candidates_, {}, &Candidate::unexplained);
    for (const Candidate& candidate : candidates_) diagnosis.causes.push_back(candidate.text);
    return diagnosis;
  }

 private:
  std::span<const double> got_row(std::size_t r) const { return got_.subspan(r * d_, d_); }
  std::span<const double> want_row(std::size_t r) const {
    return std::span(truth_.out).subspan(r * d_, d_);
  }

  bool is_wrong(const Arithmetic& arithmetic, std::size_t r) const {
    OracleRows one = make_oracle_rows(problem_, std::span(&truth_.rows[r], 1));
    const auto copy = [&](const std::vector<double>& from, std::vector<double>& to) {
      if (to.empty()) return;
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(r * d_), to.size(), to.begin());
    };
    one.lse[0] = truth_.lse[r];
    one.row_sum[0] = truth_.row_sum[r];
    copy(truth_.out, one.out);
    copy(truth_.weight_sum, one.weight_sum);
    copy(truth_.weight_square, one.weight_square);
    copy(truth_.value_sum, one.value_sum);
    copy(truth_.value_distance, one.value_distance);
    for (std::size_t t = 0; t < one.scores.size(); ++t) {
      copy(truth_.scores[t].bound, one.scores[t].bound);
      copy(truth_.scores[t].variance, one.scores[t].variance);
    }
    return judge(problem_, arithmetic, one, got_row(r), false).verdict == Verdict::not_exact;
  }

  /// Wrong rows with finite numbers, at most kRows, spread over all.
  void choose_rows() {
    std::vector<std::size_t> usable;
    for (std::size_t r = 0; r < wrong_.size(); ++r) {
      const auto finite = [](double x) { return std::isfinite(x); };
      if (wrong_[r] && std::ranges::all_of(got_row(r), finite) &&
          std::ranges::all_of(want_row(r), finite)) {
        usable.push_back(r);
      }
    }
    const std::size_t count = std::min(kRows, usable.size());
    for (std::size_t i = 0; i < count; ++i) rows_.push_back(usable[i * usable.size() / count]);
    for (const std::size_t r : rows_) error_ += distance_square(got_row(r), want_row(r));
  }

  static double distance_square(std::span<const double> a, std::span<const double> b) {
    double sum = 0;
    for (std::size_t c = 0; c < a.size(); ++c) sum += (a[c] - b[c]) * (a[c] - b[c]);
    return sum;
  }

  void find_places(std::vector<std::string>& places) const {
    const auto count = static_cast<std::size_t>(std::ranges::count(wrong_, true));
    places.push_back(fmt::format("{} of {} rows looked at are wrong", count, wrong_.size()));
    if (count == 0) return;
    const auto not_finite = static_cast<std::size_t>(
        std::ranges::count_if(got_, [](double x) { return !std::isfinite(x); }));
    if (not_finite > 0)
      places.push_back(fmt::format("{} elements are NaN or infinite", not_finite));
    find_set(places, "batch", [](const RowId& row) { return row.batch; });
    find_set(places, "head", [](const RowId& row) { return row.head; });
    find_row_range(places);
    find_columns(places);
  }

  /// Batches or heads that are wholly wrong while the others are right.
  void find_set(std::vector<std::string>& places, std::string_view what,
                const std::function<std::int64_t(const RowId&)>& of) const {
    std::set<std::int64_t> wrong;
    std::set<std::int64_t> all;
    for (std::size_t r = 0; r < wrong_.size(); ++r) {
      all.insert(of(truth_.rows[r]));
      if (wrong_[r]) wrong.insert(of(truth_.rows[r]));
    }
    if (wrong.size() == all.size()) return;
    std::string list;
    for (const std::int64_t index : wrong) {
      if (list.size() > 60) {
        list += ", ...";
        break;
      }
      list += fmt::format("{}{}", list.empty() ? "" : ", ", index);
    }
    places.push_back(fmt::format("only {}{} {}", what,
                                 wrong.size() > 1 ? (what == "batch" ? "es" : "s") : "", list));
  }

  void find_row_range(std::vector<std::string>& places) const {
    std::int64_t first = problem_.n_q;
    std::int64_t last = -1;
    for (std::size_t r = 0; r < wrong_.size(); ++r) {
      if (!wrong_[r]) continue;
      first = std::min(first, truth_.rows[r].row);
      last = std::max(last, truth_.rows[r].row);
    }
    std::int64_t inside = 0;
    std::int64_t inside_wrong = 0;
    std::int64_t before = -1;  // the nearest right rows on both sides
    std::int64_t after = problem_.n_q;
    for (std::size_t r = 0; r < wrong_.size(); ++r) {
      const std::int64_t row = truth_.rows[r].row;
      if (row < first) before = std::max(before, row);
      if (row > last) after = std::min(after, row);
      if (row < first || row > last) continue;
      ++inside;
      inside_wrong += wrong_[r] ? 1 : 0;
    }
    const bool most = inside_wrong * 10 >= inside * 9;
    const std::string which =
        most ? "wrong" : fmt::format("wrong in {} of {}", inside_wrong, inside);
    if (before < 0 && after >= problem_.n_q) {
      if (!most)
        places.push_back(fmt::format("anywhere among the rows, {} of {}", inside_wrong, inside));
    } else if (after >= problem_.n_q) {
      places.push_back(fmt::format("rows from {} on are {} (row {} and before are right)", first,
                                   which, before));
    } else if (before < 0) {
      places.push_back(
          fmt::format("rows up to {} are {} (row {} and after are right)", last, which, after));
    } else {
      places.push_back(fmt::format("rows {} to {} are {}, the others right", first, last, which));
    }
  }

  void find_columns(std::vector<std::string>& places) const {
    // A column is wrong where it holds more than its share of the error by far.
    std::vector<double> error(d_, 0.0);
    double total = 0;
    for (const std::size_t r : rows_) {
      for (std::size_t c = 0; c < d_; ++c) {
        const double difference = got_row(r)[c] - want_row(r)[c];
        error[c] += difference * difference;
        total += difference * difference;
      }
    }
    std::vector<std::size_t> wrong;
    for (std::size_t c = 0; c < d_; ++c) {
      if (error[c] > 1e-3 * total / static_cast<double>(d_)) wrong.push_back(c);
    }
    if (wrong.empty() || wrong.size() * 10 > d_ * 9) return;
    if (wrong.back() - wrong.front() + 1 == wrong.size() && wrong.size() > 1) {
      places.push_back(fmt::format("only columns {} to {}", wrong.front(), wrong.back()));
    } else if (wrong.size() <= 8) {
      places.push_back(
          fmt::format("only column{} {}", wrong.size() > 1 ? "s" : "", fmt::join(wrong, ", ")));
    }
  }

  /// A cause is kept when what it predicts for the chosen rows is nearly what the output holds.
  /// `predicted`: [rows_, head_dim]; rows it says nothing about are left out by `covers`.
  void consider(const std::string& text, std::span<const double> predicted,
                const std::function<bool(const RowId&)>& covers = {}) {
    double left = 0;
    double error = 0;
    std::size_t covered = 0;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (covers && !covers(truth_.rows[rows_[i]])) continue;
      ++covered;
      left += distance_square(got_row(rows_[i]), predicted.subspan(i * d_, d_));
      error += distance_square(got_row(rows_[i]), want_row(rows_[i]));
    }
    if (covered * 2 < rows_.size() || error == 0) return;
    const double unexplained = std::sqrt(left / error);
    if (unexplained <= kUnexplained) candidates_.push_back({unexplained, text});
  }

  std::vector<RowId> ids() const {
    std::vector<RowId> rows;
    for (const std::size_t r : rows_) rows.push_back(truth_.rows[r]);
    return rows;
  }

  /// The truth about another problem on the same tensors.
  void try_problem(const std::string& text, const Problem& other, const Operands& operands,
                   const std::function<bool(const RowId&)>& covers = {}) {
    std::vector<RowId> rows = ids();
    for (RowId& row : rows) {
      if (covers && !covers(row)) row = {row.batch, row.head, 0};
    }
    consider(text, oracle_.rows(other, operands, rows).out, covers);
  }

  void try_problems() {
    const auto with_scale = [&](double scale) {
      Problem other = problem_;
      other.scale = scale;
      return other;
    };
    try_problem("looks like scale missing", with_scale(1.0), operands_);
    try_problem("looks like scale applied twice", with_scale(problem_.scale * problem_.scale),
                operands_);
    try_problem("looks like 2^x where e^x was meant",
                with_scale(problem_.scale * std::numbers::ln2), operands_);
    try_problem("looks like e^x of scores that were scaled for 2^x",
                with_scale(problem_.scale * std::numbers::log2e), operands_);
    try_problem("looks like scale 1 / head_dim",
                with_scale(1.0 / static_cast<double>(problem_.head_dim)), operands_);
    Problem other = problem_;
    if (problem_.mask == Mask::none) {
      other.mask = Mask::causal;
      try_problem("looks like a causal mask was applied", other, operands_);
      return;
    }
    other.mask = Mask::none;
    try_problem("looks like no mask was applied", other, operands_);
    // A row sees keys up to row + n_kv - n_q; other lengths shift that.
    other = problem_;
    other.n_q = problem_.n_q - 1;
    if (other.n_q > 0) {
      try_problem("looks like the mask lets through one key too many", other, operands_,
                  [&](const RowId& row) { return row.row < problem_.n_q - 1; });
    }
    other.n_q = problem_.n_q + 1;
    try_problem("looks like the mask hides one key too many", other, operands_);
    if (problem_.n_q != problem_.n_kv) {
      other = problem_;
      other.n_q = other.n_kv = std::min(problem_.n_q, problem_.n_kv);
      try_problem("looks like the mask is aligned top-left", other, operands_,
                  [&](const RowId& row) { return row.row < problem_.n_kv; });
    }
  }

  /// Every head of the chosen rows, to see whose output a head holds.
  void try_heads() {
    if (problem_.heads == 1 || problem_.heads > 128) return;
    const std::size_t few = std::min<std::size_t>(rows_.size(), 4);
    std::vector<RowId> rows;
    for (std::size_t i = 0; i < few; ++i) {
      RowId row = truth_.rows[rows_[i * rows_.size() / few]];
      for (row.head = 0; row.head < problem_.heads; ++row.head) rows.push_back(row);
    }
    const OracleRows all = oracle_.rows(problem_, operands_, rows);
    const auto heads = static_cast<std::size_t>(problem_.heads);
    std::map<std::int64_t, std::int64_t> holds;
    double worst = 0;
    for (std::size_t i = 0; i < few; ++i) {
      const std::size_t r = rows_[i * rows_.size() / few];
      const double error = distance_square(got_row(r), want_row(r));
      for (std::size_t h = 0; h < heads; ++h) {
        const auto out = std::span<const double>(all.out).subspan((i * heads + h) * d_, d_);
        const double left = std::sqrt(distance_square(got_row(r), out) / error);
        if (left > kUnexplained) continue;
        holds[truth_.rows[r].head] = static_cast<std::int64_t>(h);
        worst = std::max(worst, left);
        break;
      }
    }
    if (holds.empty()) return try_group_mapping();
    const auto& [head, other] = *holds.begin();
    candidates_.push_back(
        {worst, fmt::format("looks like heads are mixed up: head {} holds the output of head {}",
                            head, other)});
  }

  /// Query head h with key head h mod kv_heads.
  void try_group_mapping() {
    if (problem_.kv_heads == 1 || problem_.kv_heads == problem_.heads) return;
    std::vector<double> predicted;
    for (const RowId& row : ids()) {
      const std::int64_t group = problem_.heads / problem_.kv_heads;
      RowId other = row;
      other.head = row.head % problem_.kv_heads * group;
      Operands operands = operands_;
      const std::int64_t shift = row.head - other.head;
      operands.q.data = static_cast<std::byte*>(operands.q.data) +
                        shift * operands.q.stride[2] * size_of(problem_.dtype);
      const OracleRows one = oracle_.rows(problem_, operands, std::span(&other, 1));
      predicted.insert(predicted.end(), one.out.begin(), one.out.end());
    }
    consider(
        "looks like query head h reads key head h mod kv_heads instead of h / (heads / kv_heads)",
        predicted);
  }

  /// Rows that are right but for a factor.
  void try_factors() {
    double left = 0;
    double low = INFINITY;
    double high = -INFINITY;
    double by_sum = 0;
    for (const std::size_t r : rows_) {
      double product = 0;
      double square = 0;
      for (std::size_t c = 0; c < d_; ++c) {
        product += got_row(r)[c] * want_row(r)[c];
        square += want_row(r)[c] * want_row(r)[c];
      }
      if (square == 0) return;
      const double factor = product / square;
      low = std::min(low, factor);
      high = std::max(high, factor);
      by_sum = std::max(by_sum, std::fabs(factor / truth_.row_sum[r] - 1.0));
      for (std::size_t c = 0; c < d_; ++c) {
        const double rest = got_row(r)[c] - factor * want_row(r)[c];
        left += rest * rest;
      }
    }
    const double unexplained = std::sqrt(left / error_);
    if (unexplained > kUnexplained || d_ < 4) return;
    if (high == 0 && low == 0) {
      candidates_.push_back({0, "the output is 0"});
    } else if (by_sum < 0.02) {
      candidates_.push_back(
          {unexplained, "looks like the output is not divided by the sum of the weights"});
    } else if (high - low <= 0.02 * std::fabs(high)) {
      candidates_.push_back({unexplained, fmt::format("looks like the output is scaled by {:.4g}",
                                                      0.5 * (low + high))});
    } else {
      candidates_.push_back(
          {unexplained,
           fmt::format("each row is right but for a factor, {:.4g} to {:.4g}: a wrong sum "
                       "or a rescaling forgotten",
                       low, high)});
    }
  }

  /// A block of keys whose absence explains the rows.
  void try_left_out_keys() {
    if (problem_.n_kv * problem_.head_dim > kMostKeyTerms) return;
    std::map<std::pair<std::int64_t, std::int64_t>, std::pair<double, double>>
        fits;  // block: left, error
    const std::size_t few = std::min<std::size_t>(rows_.size(), 8);
    for (std::size_t i = 0; i < few; ++i) {
      const std::size_t r = rows_[rows_.size() - 1 - i];  // late rows see most keys
      for (const std::int64_t size : {1, 16, 32, 64, 128}) fit_blocks(r, size, fits);
    }
    const auto best = std::ranges::min_element(fits, {}, [](const auto& fit) {
      return fit.second.second > 0 ? fit.second.first / fit.second.second : 1.0;
    });
    if (best == fits.end() || best->second.second == 0) return;
    const double unexplained = std::sqrt(best->second.first / best->second.second);
    if (unexplained > kUnexplained) return;
    const auto [first, size] = best->first;
    candidates_.push_back(
        {unexplained, size == 1 ? fmt::format("looks like key {} was left out", first)
                                : fmt::format("looks like keys {} to {} were left out", first,
                                              std::min(first + size, problem_.n_kv) - 1)});
  }

  /// What row `r` would be without each block of `size` keys.
  void fit_blocks(
      std::size_t r, std::int64_t size,
      std::map<std::pair<std::int64_t, std::int64_t>, std::pair<double, double>>& fits) const {
    const RowId& id = truth_.rows[r];
    const std::int64_t visible = problem_.visible_keys(id.row);
    const std::int64_t kv_head = id.head / (problem_.heads / problem_.kv_heads);
    const double error = distance_square(got_row(r), want_row(r));
    std::vector<double> block(d_);
    for (std::int64_t first = 0; first < visible; first += size) {
      std::ranges::fill(block, 0.0);
      double weight = 0;
      for (std::int64_t j = first; j < std::min(first + size, visible); ++j) {
        double s = 0;
        for (std::int64_t c = 0; c < problem_.head_dim; ++c) {
          s += element(operands_.q, id.batch, id.row, id.head, c) *
               element(operands_.k, id.batch, j, kv_head, c);
        }
        const double p = std::exp(problem_.scale * s - truth_.lse[r]);
        weight += p;
        for (std::size_t c = 0; c < d_; ++c) {
          block[c] += p * element(operands_.v, id.batch, j, kv_head, static_cast<std::int64_t>(c));
        }
      }
      double left = error;
      if (weight < 1.0) {
        left = 0;
        for (std::size_t c = 0; c < d_; ++c) {
          const double rest = got_row(r)[c] - (want_row(r)[c] - block[c]) / (1.0 - weight);
          left += rest * rest;
        }
      }
      auto& fit = fits[{first, size}];
      fit.first += left;
      fit.second += error;
    }
  }

  static double element(const Tensor& tensor, std::int64_t b, std::int64_t n, std::int64_t h,
                        std::int64_t c) {
    return load_element(tensor.data, tensor.dtype, tensor.at(b, n, h, c));
  }

  Oracle& oracle_;
  const Problem& problem_;
  const Operands& operands_;
  const OracleRows& truth_;
  std::span<const double> got_;
  std::size_t d_;
  std::vector<bool> wrong_;
  std::vector<std::size_t> rows_;  ///< wrong and finite: indices into truth_.rows
  double error_ = 0;               ///< square of the error's norm over rows_
  std::vector<Candidate> candidates_;
};

}  // namespace

Diagnosis diagnose(Oracle& oracle, const Problem& problem, const Operands& operands,
                   const Arithmetic& arithmetic, const OracleRows& truth,
                   std::span<const double> got) {
  return Examiner(oracle, problem, operands, arithmetic, truth, got).run();
}

}  // namespace flashbench
