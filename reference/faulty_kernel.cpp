#include "reference/faulty_kernel.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "parallel.h"

namespace flashbench {

namespace {

constexpr std::int64_t kQueries = 64;  // rows of a query tile
constexpr std::int64_t kKeys = 64;     // keys of a key tile
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLog2E = std::numbers::log2e_v<float>;

float round_to(Dtype dtype, float value) {
  switch (dtype) {
    case Dtype::f32: return value;
    case Dtype::f16: return f16_to_float(float_to_f16(value));
    case Dtype::bf16: return bf16_to_float(float_to_bf16(value));
  }
  return value;
}

/// To `bits` bits after the leading one: 3 are fp8's (e4m3), 10 tf32's. Overflow is left out.
float round_to_bits(float value, int bits) {
  const int dropped = 23 - bits;
  const auto pattern = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t half = (std::uint32_t{1} << (dropped - 1)) - 1 + ((pattern >> dropped) & 1U);
  const std::uint32_t mask = ~((std::uint32_t{1} << dropped) - 1);
  return std::isfinite(value) ? std::bit_cast<float>((pattern + half) & mask) : value;
}

/// Towards zero.
float truncate_to(Dtype dtype, float value) {
  const float nearest = round_to(dtype, value);
  if (std::fabs(nearest) <= std::fabs(value) || !std::isfinite(value)) return nearest;
  const int bits = dtype == Dtype::f16 ? 10 : 7;
  const auto pattern = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>(pattern & ~((std::uint32_t{1} << (23 - bits)) - 1));
}

/// exp with a relative error of 2e-3: 2^x by a parabola between powers.
float coarse_exp(float x) {
  if (!(x > -80.0F)) return std::exp(x);
  const float y = x * kLog2E;
  const float whole = std::floor(y);
  const float part = y - whole;
  return std::ldexp(1.0F + part * (0.6565F + 0.3435F * part),
                    static_cast<int>(std::max(whole, -200.0F)));
}

/// The tile of queries of one head that a thread works on.
class Tile {
 public:
  Tile(const Problem& problem, const Operands& operands, Fault fault, std::int64_t batch,
       std::int64_t head, std::int64_t first)
      : problem_(problem),
        operands_(operands),
        fault_(fault),
        batch_(batch),
        head_(head),
        first_(first),
        rows_(std::min(kQueries, problem.n_q - first)),
        d_(problem.head_dim) {
    const auto size = [](std::int64_t rows, std::int64_t columns) {
      return static_cast<std::size_t>(rows * columns);
    };
    q_.resize(size(kQueries, d_));
    k_.resize(size(d_, kKeys));
    v_.resize(size(kKeys, d_));
    o_.resize(size(kQueries, d_));
    half_.resize(size(kQueries, d_));
  }

  void run() {
    load_queries();
    const std::int64_t tiles = tile_count();
    const std::int64_t middle =
        is(Fault::halves_merged_unweighted) && tiles > 1 ? tiles / 2 : tiles;
    start();
    for (std::int64_t t = 0; t < middle; ++t) attend(t, tiles);
    normalise();
    if (middle < tiles) {
      half_ = o_;
      start();
      for (std::int64_t t = middle; t < tiles; ++t) attend(t, tiles);
      normalise();
      for (std::size_t i = 0; i < o_.size(); ++i) o_[i] = 0.5F * (o_[i] + half_[i]);
    }
    store();
  }

 private:
  bool is(Fault fault) const { return fault_ == fault; }

  static float element(const Tensor& tensor, std::int64_t at) {
    return static_cast<float>(load_element(tensor.data, tensor.dtype, at));
  }
  float read(const Tensor& tensor, std::int64_t at) const {
    const float value = element(tensor, at);
    return is(Fault::tf32) ? round_to_bits(value, 10) : value;
  }

  void load_queries() {
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t c = 0; c < d_; ++c) {
        q_[index(i, c, d_)] = read(operands_.q, operands_.q.at(batch_, first_ + i, head_, c));
      }
    }
  }

  static std::size_t index(std::int64_t row, std::int64_t column, std::int64_t width) {
    return static_cast<std::size_t>(row * width + column);
  }

  /// Keys that row `i` of the tile sees, by the kernel's reckoning.
  std::int64_t visible(std::int64_t i) const {
    if (problem_.mask == Mask::none || is(Fault::mask_missing)) return problem_.n_kv;
    const std::int64_t row = first_ + i;
    std::int64_t last = row + problem_.n_kv - problem_.n_q;
    if (is(Fault::mask_top_left)) last = row;
    if (is(Fault::mask_one_late)) last += 1;
    if (is(Fault::mask_one_early)) last -= 1;
    if (is(Fault::mask_by_tile) && last >= 0) last = last / kKeys * kKeys + kKeys - 1;
    return std::clamp<std::int64_t>(last + 1, 0, problem_.n_kv);
  }

  std::int64_t tile_count() const {
    std::int64_t seen = visible(is(Fault::tiles_counted_for_first_row) ? 0 : rows_ - 1);
    if (is(Fault::mask_finite)) seen = problem_.n_kv;  // masked keys are scores like any other
    if (is(Fault::sixty_keys_dropped) && problem_.n_kv >= 4096)
      seen = std::min(seen, problem_.n_kv - 60);
    const std::int64_t tiles = (seen + kKeys - 1) / kKeys;
    return is(Fault::last_tile_dropped) && tiles > 1 ? tiles - 1 : tiles;
  }

  void start() {
    m_.fill(is(Fault::max_from_zero) ? 0.0F : -kInfinity);
    l_.fill(0.0F);
    std::fill(o_.begin(), o_.end(), 0.0F);
  }

  void load_keys(std::int64_t t) {
    const std::int64_t kv_head = is(Fault::group_by_modulo)
                                     ? head_ % problem_.kv_heads
                                     : head_ / (problem_.heads / problem_.kv_heads);
    const std::int64_t b = is(Fault::batch_ignored) ? 0 : batch_;
    for (std::int64_t j = 0; j < kKeys; ++j) {
      std::int64_t key = t * kKeys + j;
      const bool inside = key < problem_.n_kv;
      if (is(Fault::tail_keys_clamped)) key = std::min(key, problem_.n_kv - 1);
      const bool load = inside || is(Fault::tail_keys_clamped);
      for (std::int64_t c = 0; c < d_; ++c) {
        if (!is(Fault::stale_keys) || t != 1) {
          k_[index(c, j, kKeys)] =
              load ? read(operands_.k, operands_.k.at(b, key, kv_head, c)) : 0.0F;
        }
        if (!is(Fault::stale_values) || t != 1) {
          std::int64_t column = c;
          if (is(Fault::value_columns_swapped) && (c | 1) < d_ && c < 2) column = c ^ 1;
          v_[index(j, c, d_)] =
              load ? read(operands_.v, operands_.v.at(b, key, kv_head, column)) : 0.0F;
        }
      }
    }
  }

  /// Scores of row `i` with the key tile, scaled and masked.
  void find_scores(std::int64_t t, std::int64_t i, std::array<float, kKeys>& s) const {
    s.fill(0.0F);
    const std::int64_t depth = is(Fault::head_dim_tail_ignored) && d_ > 16 ? d_ / 16 * 16 : d_;
    for (std::int64_t c = 0; c < depth; ++c) {
      const float q = q_[index(i, c, d_)];
      const float* k = k_.data() + index(c, 0, kKeys);
      for (std::size_t j = 0; j < s.size(); ++j) s[j] += q * k[j];
    }
    auto scale = static_cast<float>(problem_.scale);
    if (is(Fault::scale_missing)) scale = 1.0F;
    if (is(Fault::scale_squared)) scale *= scale;
    const bool tail_visible = is(Fault::tail_keys_unmasked) || is(Fault::tail_keys_clamped);
    const std::int64_t seen = visible(i);
    for (std::int64_t j = 0; j < kKeys; ++j) {
      float& score = s[static_cast<std::size_t>(j)];
      score *= scale;
      if (is(Fault::scores_in_dtype)) score = round_to(problem_.dtype, score);
      if (is(Fault::scores_clamped)) score = std::clamp(score, -60.0F, 60.0F);
      const std::int64_t key = t * kKeys + j;
      const bool hidden = key >= seen && !(tail_visible && seen == problem_.n_kv);
      if (hidden && is(Fault::mask_finite) && key < problem_.n_kv) {
        score = -1e4F;
      } else if (hidden && is(Fault::mask_added) && key < problem_.n_kv) {
        score += -kInfinity;
      } else if (hidden) {
        score = -kInfinity;
      }
      if (is(Fault::one_key_dropped) && key == problem_.n_kv / 2 && problem_.n_kv > 1)
        score = -kInfinity;
      if (is(Fault::sixty_keys_dropped) && problem_.n_kv >= 4096 && key >= problem_.n_kv - 60)
        score = -kInfinity;
    }
  }

  float exponential(float x) const {
    if (is(Fault::exponent_in_base_two)) return std::exp2(x);
    if (is(Fault::exponential_coarse)) return coarse_exp(x);
    return std::exp(x);
  }

  float store_weight(float p) const {
    if (is(Fault::weights_in_fp8)) return round_to_bits(p, 3);
    if (is(Fault::weights_in_bf16)) return round_to(Dtype::bf16, p);
    if (is(Fault::small_weights_dropped) && p < 0x1p-10F) return 0.0F;
    if (is(Fault::tf32)) return round_to_bits(p, 10);
    return round_to(problem_.dtype, p);
  }

  void attend(std::int64_t t, std::int64_t tiles) {
    load_keys(t);
    std::array<std::array<float, kKeys>, kQueries> s{};
    std::array<float, kQueries> tile_max{};
    float shared_max = -kInfinity;
    for (std::int64_t i = 0; i < rows_; ++i) {
      const auto row = static_cast<std::size_t>(i);
      find_scores(t, i, s[row]);
      tile_max[row] = -kInfinity;
      for (const float score : s[row]) {
        // A NaN must reach the weights.
        if (score > tile_max[row] || std::isnan(score)) tile_max[row] = score;
      }
      shared_max = std::max(shared_max, tile_max[row]);
    }
    const int times = is(Fault::tile_twice) && t == 0 && tiles > 1 ? 2 : 1;
    for (std::int64_t i = 0; i < rows_; ++i) {
      const auto row = static_cast<std::size_t>(i);
      const float largest = is(Fault::max_shared_by_rows) ? shared_max : tile_max[row];
      for (int time = 0; time < times; ++time) update_row(t, tiles, i, largest, s[row]);
    }
  }

  /// Online softmax: takes the tile's scores into m, l and O of row `i`.
  void update_row(std::int64_t t, std::int64_t tiles, std::int64_t i, float largest,
                  const std::array<float, kKeys>& s) {
    const auto row = static_cast<std::size_t>(i);
    float m = largest > m_[row] || std::isnan(largest) ? largest : m_[row];
    if (is(Fault::max_reset)) m = largest;
    if (is(Fault::max_missing)) m = 0.0F;
    if (m == -kInfinity) return;  // no visible key so far
    float* o = o_.data() + index(i, 0, d_);
    const float alpha = is(Fault::max_missing) ? 1.0F : exponential(std::min(0.0F, m_[row] - m));
    if (!is(Fault::sum_not_rescaled)) l_[row] *= alpha;
    if (!is(Fault::output_not_rescaled)) {
      for (std::int64_t c = 0; c < d_; ++c) o[c] *= alpha;
    }
    m_[row] = m;
    const bool skip_sum = is(Fault::sum_misses_last_tile) && t + 1 == tiles && tiles > 1;
    float tile_sum = 0.0F;
    const bool skip_output = is(Fault::tile_missing_in_output) && t == 1;
    for (std::int64_t j = 0; j < kKeys; ++j) {
      const float p = exponential(s[static_cast<std::size_t>(j)] - m);
      tile_sum += p;
      if (is(Fault::sum_in_dtype)) tile_sum = round_to(problem_.dtype, tile_sum);
      if (p == 0.0F || skip_output) continue;
      const float weight = store_weight(p);
      const float* v = v_.data() + index(j, 0, d_);
      for (std::int64_t c = 0; c < d_; ++c) o[c] += weight * v[c];
    }
    if (!skip_sum) l_[row] += tile_sum;
    if (is(Fault::sum_in_dtype)) l_[row] = round_to(problem_.dtype, l_[row]);
    if (is(Fault::accumulator_in_dtype)) {
      for (std::int64_t c = 0; c < d_; ++c) o[c] = round_to(problem_.dtype, o[c]);
    }
  }

  void normalise() {
    if (is(Fault::not_normalised)) return;
    for (std::int64_t i = 0; i < rows_; ++i) {
      const float l = l_[static_cast<std::size_t>(i)];
      float* o = o_.data() + index(i, 0, d_);
      const bool empty = m_[static_cast<std::size_t>(i)] == -kInfinity;
      for (std::int64_t c = 0; c < d_; ++c) o[c] = empty ? 0.0F : o[c] / l;
      if (empty && is(Fault::empty_rows_averaged)) average_values(o);
    }
  }

  void average_values(float* o) const {
    const std::int64_t kv_head = head_ / (problem_.heads / problem_.kv_heads);
    for (std::int64_t c = 0; c < d_; ++c) {
      for (std::int64_t j = 0; j < problem_.n_kv; ++j) {
        o[c] += element(operands_.v, operands_.v.at(batch_, j, kv_head, c)) /
                static_cast<float>(problem_.n_kv);
      }
    }
  }

  void store() const {
    std::int64_t head = head_;
    if (is(Fault::heads_swapped) && (head_ | 1) < problem_.heads) head = head_ ^ 1;
    if (is(Fault::last_rows_missing) && rows_ < kQueries) return;
    if (is(Fault::blocks_beyond_65535_missing) && batch_ * problem_.heads + head_ >= 65535) return;
    const Tensor& out = operands_.o;
    for (std::int64_t i = 0; i < rows_; ++i) {
      const std::int64_t n = first_ + i;
      const bool torn = is(Fault::last_row_torn) && n + 1 == problem_.n_q;
      for (std::int64_t c = 0; c < (torn ? d_ / 2 : d_); ++c) {
        std::int64_t at = out.at(batch_, n, head, c);
        if (is(Fault::written_heads_first))
          at = ((batch_ * problem_.heads + head) * problem_.n_q + n) * d_ + c;
        float value = o_[index(i, c, d_)];
        if (is(Fault::output_truncated)) value = truncate_to(problem_.dtype, value);
        if (is(Fault::output_one_ulp_off)) {
          const auto ulp = static_cast<float>(2.0 * unit_roundoff(problem_.dtype));
          value = round_to(problem_.dtype, value) * (1.0F + ulp);
        }
        store_element(out.data, out.dtype, at, value);
      }
      store_lse(i);
    }
  }

  void store_lse(std::int64_t i) const {
    if (operands_.lse == nullptr) return;
    const float m = m_[static_cast<std::size_t>(i)];
    const float l = l_[static_cast<std::size_t>(i)];
    float lse = m == -kInfinity ? -kInfinity : m + std::log(l);
    if (is(Fault::lse_in_base_two)) lse *= kLog2E;
    if (is(Fault::lse_without_max) && m != -kInfinity) lse = std::log(l);
    operands_.lse[(batch_ * problem_.heads + head_) * problem_.n_q + first_ + i] = lse;
  }

  const Problem& problem_;
  const Operands& operands_;
  Fault fault_;
  std::int64_t batch_;
  std::int64_t head_;
  std::int64_t first_;
  std::int64_t rows_;
  std::int64_t d_;
  std::vector<float> q_;  // [kQueries, d]
  std::vector<float> k_;  // [d, kKeys]
  std::vector<float> v_;  // [kKeys, d]
  std::vector<float> o_;  // [kQueries, d]
  std::vector<float> half_;
  std::array<float, kQueries> m_{};
  std::array<float, kQueries> l_{};
};

}  // namespace

void faulty_attention(const Problem& problem, const Operands& operands, Fault fault) {
  const std::int64_t tiles = (problem.n_q + kQueries - 1) / kQueries;
  parallel_for(problem.batch * problem.heads * tiles, [&](std::int64_t i) {
    const std::int64_t head = i / tiles;
    Tile(problem, operands, fault, head / problem.heads, head % problem.heads, i % tiles * kQueries)
        .run();
  });
}

}  // namespace flashbench
