// FlashAttention's forward pass (Dao et al. 2022; Dao 2023, algorithm 1) for CPUs, one query row to
// a SIMD lane:
//
//   for each tile of keys:
//     S^T = K Q^T;  P^T = exp2(c S^T - c m);  l = l alpha + sum P;  O^T = O^T alpha + V^T P^T
//
// Transposed, both products broadcast elements of K and V, which stay as they are stored, and the
// softmax of a row never crosses lanes. Registers hold key_step x 3 accumulators: with 32 registers
// of 16 lanes, 24 multiply-adds for 8 broadcasts and 3 loads, so the two FMA ports limit and the
// two load ports do not. Each tile's P V is summed apart and then added to O: sums of tiles of sums
// lose less to rounding than one long chain. c = scale log2(e) meets the scores in the fused
// multiply-add that subtracts the maximum: folded into Q, its rounding would grow with the scores.

#include "reference/cpu_fused_kernel.h"

#include "reference/simd_targets.h"  // before any header of Highway

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/cpu_fused_kernel.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "reference/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashbench::HWY_NAMESPACE {
namespace {

// 24 accumulators with 32 registers (AVX-512, NEON), 12 with 16.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr int kKeyStep = 8;
#else
constexpr int kKeyStep = 4;
#endif
constexpr int kMaxVectors = 3;
constexpr std::int64_t kStep = kKeyStep;
constexpr auto kWidth = static_cast<std::int64_t>(kLanes);
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// sum[i][v] = sum over t < depth of a[i * row_stride + t * depth_stride] b[t, v]. b: [depth,
/// Vectors * kWidth]. Loops with constant bounds are unrolled from -O3 on, which makes `sum`
/// registers.
template <int Vectors>
HWY_INLINE void multiply(const float* HWY_RESTRICT a, std::int64_t row_stride,
                         std::int64_t depth_stride, const float* HWY_RESTRICT b, std::int64_t depth,
                         Float (&sum)[kKeyStep][Vectors]) {
  for (auto& row : sum) {
    for (Float& value : row) value = hn::Zero(kFloats);
  }
  for (std::int64_t t = 0; t < depth; ++t) {
    Float row[Vectors];
    for (int v = 0; v < Vectors; ++v) row[v] = hn::Load(kFloats, b + (t * Vectors + v) * kWidth);
    for (int i = 0; i < kKeyStep; ++i) {
      const Float scalar = hn::Set(kFloats, a[i * row_stride + t * depth_stride]);
      for (int v = 0; v < Vectors; ++v) sum[i][v] = hn::MulAdd(scalar, row[v], sum[i][v]);
    }
  }
}

/// A strip of Vectors * kWidth query rows. All arrays are in scratch memory; W = Vectors *
/// kWidth.
template <int Vectors>
struct Strip {
  static constexpr std::int64_t kRows = Vectors * kWidth;

  const float* q;        ///< Q^T: [padded_dim, W]
  float* o;              ///< O^T, not normalised: [padded_dim, W]
  float* m;              ///< largest score so far: [W]
  float* l;              ///< sum of weights: [W]
  const float* visible;  ///< keys that each row sees, counted from the tile's first: [W]
  float factor;          ///< from scores to exponents of 2

  /// S^T = K Q^T into s [keys, W] for `keys` keys, a multiple of kKeyStep; raises `most` to their
  /// maxima.
  HWY_NOINLINE void scores(const float* HWY_RESTRICT k, std::int64_t keys, std::int64_t padded_dim,
                           float* HWY_RESTRICT s, Float* most) const {
    for (std::int64_t j = 0; j < keys; j += kStep) {
      Float sum[kKeyStep][Vectors];
      multiply(k + j * padded_dim, padded_dim, 1, q, padded_dim, sum);
      for (int v = 0; v < Vectors; ++v) {
        Float raised = most[v];  // not kept in a register: the accumulators need them all
        for (int i = 0; i < kKeyStep; ++i) {
          raised = hn::Max(raised, sum[i][v]);
          hn::Store(sum[i][v], kFloats, s + ((j + i) * Vectors + v) * kWidth);
        }
        most[v] = raised;
      }
    }
  }

  /// -infinity where a row does not see the key; `most` becomes the maximum of m and what is left.
  HWY_NOINLINE void mask(float* HWY_RESTRICT s, std::int64_t keys, Float* most) const {
    for (int v = 0; v < Vectors; ++v) {
      const Float limit = hn::Load(kFloats, visible + v * kWidth);
      Float raised = hn::Load(kFloats, m + v * kWidth);
      for (std::int64_t j = 0; j < keys; ++j) {
        float* at = s + (j * Vectors + v) * kWidth;
        const Float seen = hn::IfThenElse(hn::Lt(hn::Set(kFloats, static_cast<float>(j)), limit),
                                          hn::Load(kFloats, at), hn::Set(kFloats, -kInfinity));
        raised = hn::Max(raised, seen);
        hn::Store(seen, kFloats, at);
      }
      most[v] = raised;
    }
  }

  /// P^T = exp2(factor (S^T - most)) in place; l and m move on; `alpha` is what older sums shrink
  /// by.
  HWY_NOINLINE void weights(float* HWY_RESTRICT s, std::int64_t keys, const Float* most,
                            Float* alpha) const {
    const Float scale = hn::Set(kFloats, factor);
    Float shift[Vectors];
    Float sum[Vectors];
    for (int v = 0; v < Vectors; ++v) {
      // A row that has seen nothing yet: any finite shift makes its weights 0.
      const Float nothing = hn::Set(kFloats, -kInfinity);
      shift[v] = hn::IfThenZeroElse(hn::Eq(most[v], nothing), hn::Mul(most[v], scale));
      sum[v] = hn::Zero(kFloats);
    }
    for (std::int64_t j = 0; j < keys; ++j) {
      for (int v = 0; v < Vectors; ++v) {
        float* at = s + (j * Vectors + v) * kWidth;
        const Float weight = exp2(hn::MulSub(hn::Load(kFloats, at), scale, shift[v]));
        sum[v] = hn::Add(sum[v], weight);
        hn::Store(weight, kFloats, at);
      }
    }
    for (int v = 0; v < Vectors; ++v) {
      alpha[v] = exp2(hn::Sub(hn::Mul(hn::Load(kFloats, m + v * kWidth), scale), shift[v]));
      hn::Store(hn::MulAdd(hn::Load(kFloats, l + v * kWidth), alpha[v], sum[v]), kFloats,
                l + v * kWidth);
      hn::Store(most[v], kFloats, m + v * kWidth);
    }
  }

  /// O^T = O^T alpha + V^T P^T. values: [keys, padded_dim].
  HWY_NOINLINE void accumulate(const float* HWY_RESTRICT values, const float* HWY_RESTRICT p,
                               std::int64_t keys, std::int64_t padded_dim,
                               const Float* alpha) const {
    for (std::int64_t c = 0; c < padded_dim; c += kStep) {
      Float sum[kKeyStep][Vectors];
      multiply(values + c, 1, padded_dim, p, keys, sum);
      for (int i = 0; i < kKeyStep; ++i) {
        for (int v = 0; v < Vectors; ++v) {
          float* at = o + ((c + i) * Vectors + v) * kWidth;
          hn::Store(hn::MulAdd(hn::Load(kFloats, at), alpha[v], sum[i][v]), kFloats, at);
        }
      }
    }
  }

  /// One tile, of which this strip sees `keys` keys at most and every row of it all of them if
  /// `unmasked`.
  HWY_INLINE void tile(const float* k, const float* values, std::int64_t keys, bool unmasked,
                       std::int64_t padded_dim, float* s) const {
    Float most[Vectors];
    Float alpha[Vectors];
    for (int v = 0; v < Vectors; ++v) most[v] = hn::Load(kFloats, m + v * kWidth);
    scores(k, (keys + kStep - 1) / kStep * kStep, padded_dim, s, most);
    if (!unmasked) mask(s, keys, most);
    weights(s, keys, most, alpha);
    accumulate(values, s, keys, padded_dim, alpha);
  }
};

/// One block of one stack: everything that fused_block() has to know.
class Block {
 public:
  Block(const Problem& problem, const Operands& operands, const FusedShape& shape,
        std::int64_t batch, std::int64_t kv_head, std::int64_t block, float* scratch)
      : problem_(problem),
        operands_(operands),
        shape_(shape),
        batch_(batch),
        kv_head_(kv_head),
        group_(problem.heads / problem.kv_heads),
        first_(block * shape.block_rows),
        count_(std::min(shape.block_rows, shape.rows - first_)),
        dim_(shape.padded_dim),
        factor_(static_cast<float>(problem.scale * std::numbers::log2e)) {
    const auto take = [&](std::int64_t floats) { return std::exchange(scratch, scratch + floats); };
    k_ = take(shape.tile_keys * dim_);
    v_ = take(shape.tile_keys * dim_);
    s_ = take(shape.tile_keys * shape.strip_rows);
    q_ = take(shape.block_rows * dim_);
    o_ = take(shape.block_rows * dim_);
    m_ = take(shape.block_rows);
    l_ = take(shape.block_rows);
    visible_ = take(shape.strip_rows);
  }

  void run() const {
    for_each_strip([&](auto vectors, std::int64_t row) { load_queries<vectors()>(row); });
    const std::int64_t end = visible_keys(count_ - 1);
    for (std::int64_t key = 0; key < end; key += shape_.tile_keys) {
      const std::int64_t keys = std::min(shape_.tile_keys, end - key);
      load_tile(operands_.k, key, keys, (keys + kStep - 1) / kStep * kStep, k_);
      load_tile(operands_.v, key, keys, keys, v_);
      for_each_strip([&](auto vectors, std::int64_t row) { attend<vectors()>(row, key, keys); });
    }
    for_each_strip([&](auto vectors, std::int64_t row) { store_output<vectors()>(row); });
  }

 private:
  /// Keys that row `row` of the block sees; rows of padding see what the last one sees.
  std::int64_t visible_keys(std::int64_t row) const {
    return problem_.visible_keys((first_ + std::min(row, count_ - 1)) / group_);
  }

  /// visit(vectors, first row) for each strip; the last one is as narrow as its rows allow.
  template <typename Visit>
  void for_each_strip(const Visit& visit) const {
    for (std::int64_t row = 0; row < count_; row += kMaxVectors * kWidth) {
      const std::int64_t vectors = (count_ - row + kWidth - 1) / kWidth;
      if (vectors >= 3) {
        visit(std::integral_constant<int, 3>{}, row);
      } else if (vectors == 2) {
        visit(std::integral_constant<int, 2>{}, row);
      } else {
        visit(std::integral_constant<int, 1>{}, row);
      }
    }
  }

  /// Element index of row `row` of the block in Q or O.
  std::int64_t at(const Tensor& tensor, std::int64_t row) const {
    const std::int64_t stacked = first_ + row;
    return tensor.at(batch_, stacked / group_, kv_head_ * group_ + stacked % group_, 0);
  }

  /// [rows, padded_dim] keys or values from `key` on; rows and columns of padding are 0.
  void load_tile(const Tensor& tensor, std::int64_t key, std::int64_t keys,
                 std::int64_t padded_keys, float* to) const {
    for (std::int64_t j = 0; j < keys; ++j) {
      float* row = to + j * dim_;
      load_row(tensor.data, problem_.dtype, tensor.at(batch_, key + j, kv_head_, 0),
               problem_.head_dim, row);
      std::fill(row + problem_.head_dim, row + dim_, 0.0F);
    }
    std::fill(to + keys * dim_, to + padded_keys * dim_, 0.0F);
  }

  template <int Vectors>
  void load_queries(std::int64_t row) const {
    constexpr std::int64_t kRows = Vectors * kWidth;
    float* q = q_ + row * dim_;
    for (std::int64_t v = 0; v < Vectors; ++v) {
      // Four channels of kWidth rows at a time through k_, which is free until the first tile.
      for (std::int64_t lane = 0; lane < kWidth; ++lane) {
        const std::int64_t r = row + v * kWidth + lane;
        float* line = k_ + lane * dim_;
        const std::int64_t real = r < count_ ? problem_.head_dim : 0;
        if (real > 0) load_row(operands_.q.data, problem_.dtype, at(operands_.q, r), real, line);
        std::fill(line + real, line + dim_, 0.0F);
      }
      for (std::int64_t c = 0; c < dim_; c += 4) {
        HWY_ALIGN float quad[4 * kLanes];
        for (std::int64_t lane = 0; lane < kWidth; ++lane) {
          std::copy_n(k_ + lane * dim_ + c, 4, quad + 4 * lane);
        }
        Float channel[4];
        hn::LoadInterleaved4(kFloats, quad, channel[0], channel[1], channel[2], channel[3]);
        for (std::int64_t i = 0; i < 4; ++i) {
          hn::Store(channel[i], kFloats, q + (c + i) * kRows + v * kWidth);
        }
      }
    }
    std::fill_n(o_ + row * dim_, kRows * dim_, 0.0F);
    std::fill_n(m_ + row, kRows, -kInfinity);
    std::fill_n(l_ + row, kRows, 0.0F);
  }

  template <int Vectors>
  void attend(std::int64_t row, std::int64_t key, std::int64_t tile_keys) const {
    constexpr std::int64_t kRows = Vectors * kWidth;
    const std::int64_t keys = std::min(tile_keys, visible_keys(row + kRows - 1) - key);
    if (keys <= 0) return;  // no row of the strip sees any
    // Keys of padding score 0, which must not become the maximum.
    const bool unmasked = visible_keys(row) - key >= keys && keys % kStep == 0;
    if (!unmasked) {
      for (std::int64_t r = 0; r < kRows; ++r) {
        visible_[r] =
            static_cast<float>(std::clamp<std::int64_t>(visible_keys(row + r) - key, 0, keys));
      }
    }
    const Strip<Vectors> strip{q_ + row * dim_, o_ + row * dim_, m_ + row,
                               l_ + row,        visible_,        factor_};
    strip.tile(k_, v_, keys, unmasked, dim_, s_);
  }

  template <int Vectors>
  void store_output(std::int64_t row) const {
    constexpr std::int64_t kRows = Vectors * kWidth;
    const float* o = o_ + row * dim_;
    for (std::int64_t v = 0; v < Vectors; ++v) {
      const Float sum = hn::Load(kFloats, l_ + row + v * kWidth);
      // A row that saw no key: 0.
      const Float inverse =
          hn::IfThenZeroElse(hn::Eq(sum, hn::Zero(kFloats)), hn::Div(hn::Set(kFloats, 1.0F), sum));
      for (std::int64_t c = 0; c < dim_; c += 4) {
        HWY_ALIGN float quad[4 * kLanes];
        Float channel[4];
        for (std::int64_t i = 0; i < 4; ++i) {
          channel[i] = hn::Mul(hn::Load(kFloats, o + (c + i) * kRows + v * kWidth), inverse);
        }
        hn::StoreInterleaved4(channel[0], channel[1], channel[2], channel[3], kFloats, quad);
        for (std::int64_t lane = 0; lane < kWidth; ++lane) {
          std::copy_n(quad + 4 * lane, 4, k_ + lane * dim_ + c);
        }
      }
      for (std::int64_t lane = 0; lane < kWidth; ++lane) {
        const std::int64_t r = row + v * kWidth + lane;
        if (r >= count_) break;
        store_row(k_ + lane * dim_, problem_.head_dim, operands_.o.data, problem_.dtype,
                  at(operands_.o, r));
        if (operands_.lse != nullptr) store_lse(r);
      }
    }
  }

  void store_lse(std::int64_t row) const {
    const std::int64_t stacked = first_ + row;
    const std::int64_t head = kv_head_ * group_ + stacked % group_;
    operands_.lse[(batch_ * problem_.heads + head) * problem_.n_q + stacked / group_] =
        static_cast<float>(static_cast<double>(m_[row] * factor_) * std::numbers::ln2 +
                           std::log(static_cast<double>(l_[row])));
  }

  const Problem& problem_;
  const Operands& operands_;
  const FusedShape& shape_;
  std::int64_t batch_;
  std::int64_t kv_head_;
  std::int64_t group_;
  std::int64_t first_;  ///< row of the stack
  std::int64_t count_;  ///< rows of this block
  std::int64_t dim_;
  float factor_;    ///< from scores to exponents of 2
  float* k_;        ///< [tile_keys, padded_dim]
  float* v_;        ///< [tile_keys, padded_dim]
  float* s_;        ///< [tile_keys, strip_rows]
  float* q_;        ///< a Strip's q after the other
  float* o_;        ///< likewise
  float* m_;        ///< [block_rows]
  float* l_;        ///< [block_rows]
  float* visible_;  ///< [strip_rows]
};

FusedShape make_shape(const Problem& problem, int threads) {
  constexpr std::int64_t kTileKeys = 128;
  constexpr std::int64_t kMaxStrips = 8;
  constexpr std::int64_t kBlockBytes =
      std::int64_t{384} * 1024;  // of Q and O: they stay in a core's own cache
  constexpr std::int64_t kItemsPerThread = 4;
  FusedShape shape;
  shape.rows = checked_multiply(problem.n_q, problem.heads / problem.kv_heads);
  shape.lanes = kWidth;
  shape.key_step = kStep;
  shape.padded_dim = (problem.head_dim + kStep - 1) / kStep * kStep;
  shape.tile_keys = kTileKeys;
  const std::int64_t vectors =
      std::min<std::int64_t>(kMaxVectors, (shape.rows + kWidth - 1) / kWidth);
  shape.strip_rows = vectors * kWidth;
  const std::int64_t strips = (shape.rows + shape.strip_rows - 1) / shape.strip_rows;
  const std::int64_t fitting = kBlockBytes / (8 * shape.strip_rows * shape.padded_dim);
  const std::int64_t busy =
      strips * problem.batch * problem.kv_heads / (kItemsPerThread * std::int64_t{threads});
  shape.block_rows =
      shape.strip_rows * std::clamp<std::int64_t>(std::min({fitting, busy, strips}), 1, kMaxStrips);
  return shape;
}

void run_block(const Problem& problem, const Operands& operands, const FusedShape& shape,
               std::int64_t batch, std::int64_t kv_head, std::int64_t block, float* scratch) {
  Block(problem, operands, shape, batch, kv_head, block, scratch).run();
}

}  // namespace
}  // namespace flashbench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace flashbench {

HWY_EXPORT(make_shape);
HWY_EXPORT(run_block);

std::int64_t FusedShape::scratch_floats() const {
  return 2 * tile_keys * padded_dim + tile_keys * strip_rows + 2 * block_rows * padded_dim +
         2 * block_rows + strip_rows;
}

FusedShape fused_shape(const Problem& problem, int threads) {
  return HWY_DYNAMIC_DISPATCH(make_shape)(problem, threads);
}

void fused_block(const Problem& problem, const Operands& operands, const FusedShape& shape,
                 std::int64_t batch, std::int64_t kv_head, std::int64_t block, float* scratch) {
  HWY_DYNAMIC_DISPATCH(run_block)(problem, operands, shape, batch, kv_head, block, scratch);
}

}  // namespace flashbench

#endif
