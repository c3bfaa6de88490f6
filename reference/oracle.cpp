#include "reference/oracle.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <mutex>
#include <numeric>
#include <tuple>
#include <type_traits>

#include "input_values.h"
#include "parallel.h"
#include "reference/oracle_loops.h"
#include "reference/oracle_row.h"

namespace flashbench {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Exact, and without a branch, so that loops over it vectorise.
double f16_to_double(std::uint16_t bits) {
  const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7fffU) << 13U;
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112F;
  const float special = std::bit_cast<float>(magnitude | 0x7f800000U);
  const float value = (bits & 0x7c00U) == 0x7c00U ? special : scaled;
  return (bits & 0x8000U) != 0 ? -value : value;
}

/// Row (b, n, h) of a tensor as doubles.
void load_row(const Tensor& tensor, std::int64_t b, std::int64_t n, std::int64_t h, double* to) {
  const std::int64_t first = tensor.at(b, n, h, 0);
  const std::int64_t d = tensor.shape[3];
  switch (tensor.dtype) {
    case Dtype::f32: {
      const auto* from = static_cast<const float*>(tensor.data) + first;
      for (std::int64_t c = 0; c < d; ++c) to[c] = static_cast<double>(from[c]);
      return;
    }
    case Dtype::f16: {
      const auto* from = static_cast<const std::uint16_t*>(tensor.data) + first;
      for (std::int64_t c = 0; c < d; ++c) to[c] = f16_to_double(from[c]);
      return;
    }
    case Dtype::bf16: {
      const auto* from = static_cast<const std::uint16_t*>(tensor.data) + first;
      for (std::int64_t c = 0; c < d; ++c) to[c] = static_cast<double>(bf16_to_float(from[c]));
      return;
    }
  }
}

/// Rows of one batch and key/value head, which share each key and value that is loaded.
struct RowGroup {
  std::int64_t batch = 0;
  std::int64_t kv_head = 0;
  std::vector<std::size_t> members;  ///< indices into OracleRows::rows
};

class GroupOracle {
 public:
  GroupOracle(const Problem& problem, const Operands& operands, const RowGroup& group,
              OracleRows& to)
      : problem_(problem),
        operands_(operands),
        group_(group),
        to_(to),
        root_dim_(std::sqrt(static_cast<double>(problem.head_dim))),
        storages_(problem.dtype == Dtype::f32 ? 1 : 2),
        vector_(static_cast<std::size_t>(problem.head_dim)) {
    for (const std::size_t member : group_.members) {
      Row& row = rows_.emplace_back();
      row.visible = problem_.visible_keys(to_.rows[member].row);
      row.out = to_.out.data() + member * vector_.size();
      last_key_ = std::max(last_key_, row.visible);
    }
  }

  void run() {
    find_scores();
    find_outputs();
    find_spreads();
  }

 private:
  struct Row {
    std::int64_t visible = 0;
    std::vector<double> q;
    std::vector<double> s;    ///< scaled scores of the visible keys
    std::vector<double> dot;  ///< scale * sum_c |q_c k_jc|
    std::vector<double> p;    ///< normalised weights
    RowPeak peak;
    double* out = nullptr;
  };

  void find_scores() {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const RowId& id = to_.rows[group_.members[i]];
      rows_[i].q.resize(vector_.size());
      load_row(operands_.q, id.batch, id.row, id.head, rows_[i].q.data());
      rows_[i].s.resize(static_cast<std::size_t>(rows_[i].visible));
      rows_[i].dot.resize(static_cast<std::size_t>(rows_[i].visible));
    }
    for (std::int64_t j = 0; j < last_key_; ++j) {
      load_row(operands_.k, group_.batch, j, group_.kv_head, vector_.data());
      for (Row& row : rows_) {
        if (j >= row.visible) continue;
        const DotProducts product = dot_products(row.q.data(), vector_.data(), vector_.size());
        const auto key = static_cast<std::size_t>(j);
        row.s[key] = problem_.scale * product.sum;
        row.dot[key] = problem_.scale * product.magnitude;
        observe_score(row.peak, row.s[key], row.dot[key], j);
      }
    }
  }

  void find_outputs() {
    for (Row& row : rows_) {
      row.p.resize(row.s.size());
      for (std::size_t j = 0; j < row.s.size(); ++j) {
        row.p[j] = std::exp(row.s[j] - row.peak.m);
        row.peak.l += row.p[j];
      }
      for (double& p : row.p) p /= row.peak.l;
    }
    for (std::int64_t j = 0; j < last_key_; ++j) {
      load_row(operands_.v, group_.batch, j, group_.kv_head, vector_.data());
      for (Row& row : rows_) {
        if (j < row.visible)
          add_scaled(row.p[static_cast<std::size_t>(j)], vector_.data(), row.out, vector_.size());
      }
    }
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const RowPeak& peak = rows_[i].peak;
      const std::size_t member = group_.members[i];
      to_.lse[member] = peak.undefined ? kNaN : peak.m + std::log(peak.l);
      to_.row_sum[member] = peak.l;
      if (rows_[i].visible == 0) to_.lse[member] = -std::numeric_limits<double>::infinity();
      if (rows_[i].visible > 0 && !(peak.m > -std::numeric_limits<double>::infinity())) {
        to_.lse[member] = peak.undefined ? kNaN : -std::numeric_limits<double>::infinity();
      }
      const bool undefined = rows_[i].visible > 0 && !std::isfinite(to_.lse[member]);
      if (undefined) std::fill_n(rows_[i].out, vector_.size(), kNaN);
      if (undefined) rows_[i].visible = 0;
    }
  }

  void find_spreads() {
    const double storages[2] = {0.0, unit_roundoff(problem_.dtype)};
    std::vector<std::array<Anchor, 2>> anchors(rows_.size());
    std::vector<std::array<RowSums, 2>> row_sums(rows_.size());
    std::vector<SpreadSums> sums(rows_.size());
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      sums[i].resize(vector_.size(), storages_);
      for (std::size_t t = 0; t < storages_; ++t) {
        anchors[i][t] = make_anchor(rows_[i].peak, root_dim_, storages[t]);
      }
    }
    for (std::int64_t j = 0; j < last_key_; ++j) {
      load_row(operands_.v, group_.batch, j, group_.kv_head, vector_.data());
      for (std::size_t i = 0; i < rows_.size(); ++i) {
        const Row& row = rows_[i];
        if (j >= row.visible) continue;
        const auto key = static_cast<std::size_t>(j);
        std::array<KeyPerturbation, 2> factors;
        for (std::size_t t = 0; t < storages_; ++t) {
          factors[t] = perturb_key(row.peak, anchors[i][t], root_dim_, row.p[key], row.s[key],
                                   row.dot[key], j);
          row_sums[i][t].growth += factors[t].growth;
          row_sums[i][t].floor += factors[t].floor;
        }
        add_spreads(row.p[key], factors, vector_.data(), row.out, sums[i]);
      }
    }
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i].visible > 0) store_spreads(group_.members[i], sums[i], row_sums[i], anchors[i]);
    }
  }

  void store_spreads(std::size_t member, const SpreadSums& sums,
                     const std::array<RowSums, 2>& row_sums, const std::array<Anchor, 2>& anchors) {
    const auto at = static_cast<std::ptrdiff_t>(member * vector_.size());
    std::ranges::copy(sums.weight_sum, to_.weight_sum.begin() + at);
    std::ranges::copy(sums.weight_square, to_.weight_square.begin() + at);
    std::ranges::copy(sums.value_sum, to_.value_sum.begin() + at);
    std::ranges::copy(sums.value_distance, to_.value_distance.begin() + at);
    for (std::size_t t = 0; t < storages_; ++t) {
      ScorePerturbation& to = to_.scores[t];
      std::ranges::copy(sums.variance[t], to.variance.begin() + at);
      std::ranges::transform(sums.bound[t], to.bound.begin() + at,
                             [&](double bound) { return bound / row_sums[t].floor; });
      to.lse_bound[member] = lse_bound(row_sums[t], anchors[t]);
    }
  }

  const Problem& problem_;
  const Operands& operands_;
  const RowGroup& group_;
  OracleRows& to_;
  double root_dim_;
  std::size_t storages_;
  std::vector<double> vector_;
  std::vector<Row> rows_;
  std::int64_t last_key_ = 0;
};

std::vector<RowGroup> make_groups(const Problem& problem, std::span<const RowId> rows) {
  // Rows of a group share what is loaded; the group's scores, three doubles a key, stay under 96
  // MiB.
  const std::int64_t by_memory = (std::int64_t{1} << 22) / std::max<std::int64_t>(problem.n_kv, 1);
  const auto limit = static_cast<std::size_t>(std::clamp<std::int64_t>(by_memory, 1, 16));
  const std::int64_t queries_per_key = problem.heads / problem.kv_heads;

  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto key = [&](std::size_t i) {
    return std::tuple(rows[i].batch, rows[i].head / queries_per_key, rows[i].row, rows[i].head);
  };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return key(a) < key(b); });

  std::vector<RowGroup> groups;
  for (const std::size_t i : order) {
    const std::int64_t kv_head = rows[i].head / queries_per_key;
    const bool fits = !groups.empty() && groups.back().batch == rows[i].batch &&
                      groups.back().kv_head == kv_head && groups.back().members.size() < limit;
    if (!fits) groups.push_back({rows[i].batch, kv_head, {}});
    groups.back().members.push_back(i);
  }
  return groups;
}

void fill_tensor(const InputShape& shape, TensorRole role, const Tensor& tensor) {
  const auto [batch, rows, heads, columns] = tensor.shape;
  parallel_for(batch * rows, [&, rows = rows, heads = heads, columns = columns](std::int64_t i) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t first = tensor.at(i / rows, i % rows, h, 0);
      for (std::int64_t c = 0; c < columns; ++c) {
        const float value = input_value(shape, role, i / rows, i % rows, h, c);
        store_element(tensor.data, tensor.dtype, first + c, value);
      }
    }
  });
}

/// Largest |x|_2 of the first `count` rows of (b, h); rows that are not finite are left out.
double largest_norm(const Tensor& tensor, std::int64_t b, std::int64_t h) {
  std::vector<double> row(static_cast<std::size_t>(tensor.shape[3]));
  double largest = 0;
  for (std::int64_t n = 0; n < tensor.shape[1]; ++n) {
    load_row(tensor, b, n, h, row.data());
    const double square = std::inner_product(row.begin(), row.end(), row.begin(), 0.0);
    if (std::isfinite(square)) largest = std::max(largest, square);
  }
  return std::sqrt(largest);
}

/// Largest finite |scaled score| that query head `h` of batch `b` sees.
double largest_visible_score(const Problem& problem, const Operands& operands, std::int64_t b,
                             std::int64_t h) {
  const auto d = static_cast<std::size_t>(problem.head_dim);
  const std::int64_t kv_head = h / (problem.heads / problem.kv_heads);
  std::vector<double> keys(static_cast<std::size_t>(problem.n_kv) * d);
  for (std::int64_t j = 0; j < problem.n_kv; ++j) {
    load_row(operands.k, b, j, kv_head, keys.data() + static_cast<std::size_t>(j) * d);
  }
  std::vector<double> q(d);
  double largest = 0;
  for (std::int64_t i = 0; i < problem.n_q; ++i) {
    load_row(operands.q, b, i, h, q.data());
    const auto visible = static_cast<std::size_t>(problem.visible_keys(i));
    for (std::size_t j = 0; j < visible; ++j) {
      const double s = dot_products(q.data(), keys.data() + j * d, d).sum;
      if (std::isfinite(s)) largest = std::max(largest, std::fabs(s));
    }
  }
  return problem.scale * largest;
}

/// The bits of an element, those of a two-byte one under sixteen ones: all ones is the poison
/// pattern.
std::uint32_t element_bits(const Tensor& tensor, std::int64_t index) {
  if (tensor.dtype == Dtype::f32) return static_cast<const std::uint32_t*>(tensor.data)[index];
  return 0xffff0000U | static_cast<const std::uint16_t*>(tensor.data)[index];
}

/// Scans one group of rows (OutputScan) of (b, h) from row `first`.
OutputScan scan_group(const Tensor& out, const Tensor* other, const RowId& first,
                      std::int64_t count) {
  OutputScan scan;
  scan.worst_row = first;
  const std::int64_t d = out.shape[3];
  std::vector<double> mine(static_cast<std::size_t>(d));
  std::vector<double> theirs(static_cast<std::size_t>(d));
  double difference_square = 0;
  double norm_square = 0;
  for (std::int64_t n = first.row; n < first.row + count; ++n) {
    load_row(out, first.batch, n, first.head, mine.data());
    if (other != nullptr) load_row(*other, first.batch, n, first.head, theirs.data());
    for (std::int64_t c = 0; c < d; ++c) {
      const double value = mine[static_cast<std::size_t>(c)];
      const std::uint32_t bits = element_bits(out, out.at(first.batch, n, first.head, c));
      scan.non_finite += std::isfinite(value) ? 0 : 1;
      scan.poisoned += bits == 0xffffffffU ? 1 : 0;
      if (other == nullptr) continue;
      if (bits == element_bits(*other, other->at(first.batch, n, first.head, c))) {
        norm_square += std::isfinite(value) ? value * value : 0.0;
        continue;
      }
      ++scan.differing_elements;
      const double reference = theirs[static_cast<std::size_t>(c)];
      double difference = std::fabs(value - reference);
      if (!std::isfinite(difference)) {
        const bool both = !std::isfinite(value) && !std::isfinite(reference);
        difference = both ? 0.0 : std::numeric_limits<double>::infinity();
      }
      scan.max_abs_difference = std::max(scan.max_abs_difference, difference);
      difference_square += difference * difference;
      norm_square += std::isfinite(reference) ? reference * reference : 0.0;
    }
  }
  if (difference_square > 0) scan.max_row_difference = std::sqrt(difference_square / norm_square);
  return scan;
}

void merge(OutputScan& into, const OutputScan& from) {
  const auto order = [](const RowId& row) { return std::tuple(row.batch, row.head, row.row); };
  into.poisoned += from.poisoned;
  into.non_finite += from.non_finite;
  into.differing_elements += from.differing_elements;
  into.max_abs_difference = std::max(into.max_abs_difference, from.max_abs_difference);
  const bool earlier = from.max_row_difference > 0 &&
                       from.max_row_difference == into.max_row_difference &&
                       order(from.worst_row) < order(into.worst_row);
  if (from.max_row_difference > into.max_row_difference || earlier) {
    into.max_row_difference = from.max_row_difference;
    into.worst_row = from.worst_row;
  }
}

class CpuOracle final : public Oracle {
 public:
  void generate(const Problem& problem, const InputSpec& spec, const Operands& operands) override {
    const InputShape shape = input_shape(problem, spec);
    fill_tensor(shape, TensorRole::q, operands.q);
    fill_tensor(shape, TensorRole::k, operands.k);
    fill_tensor(shape, TensorRole::v, operands.v);
  }

  OracleRows rows(const Problem& problem, const Operands& operands,
                  std::span<const RowId> rows) override {
    OracleRows truth = make_oracle_rows(problem, rows);
    const std::vector<RowGroup> groups = make_groups(problem, rows);
    parallel_for(static_cast<std::int64_t>(groups.size()), [&](std::int64_t i) {
      GroupOracle(problem, operands, groups[static_cast<std::size_t>(i)], truth).run();
    });
    return truth;
  }

  double largest_score(const Problem& problem, const Operands& operands, double limit) override {
    const std::int64_t queries_per_key = problem.heads / problem.kv_heads;
    const auto reduce = [&](const std::function<double(std::int64_t, std::int64_t)>& of_head) {
      std::mutex mutex;
      double largest = 0;
      parallel_for(problem.batch * problem.heads, [&](std::int64_t i) {
        const double one = of_head(i / problem.heads, i % problem.heads);
        const std::scoped_lock lock(mutex);
        largest = std::max(largest, one);
      });
      return largest;
    };
    const double bound = reduce([&](std::int64_t b, std::int64_t h) {
      return problem.scale * largest_norm(operands.q, b, h) *
             largest_norm(operands.k, b, h / queries_per_key);
    });
    if (bound < limit) return bound;
    return reduce([&](std::int64_t b, std::int64_t h) {
      return largest_visible_score(problem, operands, b, h);
    });
  }

  OutputScan scan(const Tensor& out, const Tensor* other) override {
    const auto [batch, rows, heads, d] = out.shape;
    const std::int64_t per_group = rows_per_group(d);
    const std::int64_t groups = (rows + per_group - 1) / per_group;
    std::mutex mutex;
    OutputScan whole;
    parallel_for(batch * heads, [&, rows = rows, heads = heads](std::int64_t i) {
      OutputScan head;
      for (std::int64_t g = 0; g < groups; ++g) {
        const RowId first{i / heads, i % heads, g * per_group};
        merge(head, scan_group(out, other, first, std::min(per_group, rows - first.row)));
      }
      const std::scoped_lock lock(mutex);
      merge(whole, head);
    });
    return whole;
  }
};

}  // namespace

std::unique_ptr<Oracle> make_cpu_oracle() {
  return std::make_unique<CpuOracle>();
}

}  // namespace flashbench
