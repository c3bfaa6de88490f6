#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "dtype.h"
#include "oracle.h"
#include "problem.h"
#include "tensor.h"

namespace flashbench::test {

/// Host tensors of one problem, filled by an oracle.
struct HostProblem {
  HostProblem(const Problem& the_problem, const InputSpec& spec, Oracle& oracle)
      : problem(the_problem) {
    const auto bytes = [&](std::int64_t elements) {
      return static_cast<std::size_t>(elements * size_of(problem.dtype));
    };
    q.resize(bytes(problem.q_elements()));
    k.resize(bytes(problem.kv_elements()));
    v.resize(bytes(problem.kv_elements()));
    o.resize(bytes(problem.q_elements()), std::uint8_t{0xff});
    oracle.generate(problem, spec, operands());
  }

  Operands operands() {
    const Problem& p = problem;
    return {contiguous(q.data(), p.dtype, p.batch, p.n_q, p.heads, p.head_dim),
            contiguous(k.data(), p.dtype, p.batch, p.n_kv, p.kv_heads, p.head_dim),
            contiguous(v.data(), p.dtype, p.batch, p.n_kv, p.kv_heads, p.head_dim),
            contiguous(o.data(), p.dtype, p.batch, p.n_q, p.heads, p.head_dim), nullptr};
  }

  Problem problem;
  std::vector<std::uint8_t> q, k, v, o;
};

inline float round_to(Dtype dtype, float value) {
  float stored = 0;
  store_element(&stored, dtype, 0, value);
  return static_cast<float>(load_element(&stored, dtype, 0));
}

/// Four bits of significand: what P in fp8 (e4m3) keeps.
inline float round_to_fp8(float value) {
  if (value == 0.0F) return value;
  int exponent = 0;
  const float fraction = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(fraction * 16.0F), std::max(exponent, -5) - 4) *
         (exponent < -5 ? std::ldexp(1.0F, exponent + 5) : 1.0F);
}

/// How the simulated kernel computes. The default is a right fused kernel.
struct Simulation {
  bool materialised = false;       ///< S stored in the dtype, P normalised before it is stored
  std::int64_t tile = 64;          ///< keys
  std::int64_t dropped_from = -1;  ///< keys [dropped_from, dropped_to) are left out
  std::int64_t dropped_to = -1;
  std::int64_t mask_shift = 0;  ///< extra keys that a causal row sees
  bool fp8_weights = false;
  bool sum_in_dtype = false;
  bool accumulator_in_dtype = false;
  bool forget_rescale = false;
};

/// The operands of one (batch, key/value head) in f32, [n_kv, head_dim].
struct HeadValues {
  std::vector<float> k, v;
};

inline std::vector<float> load_rows(const Tensor& tensor, std::int64_t b, std::int64_t first,
                                    std::int64_t count, std::int64_t h) {
  std::vector<float> values;
  for (std::int64_t n = first; n < first + count; ++n) {
    for (std::int64_t c = 0; c < tensor.shape[3]; ++c) {
      values.push_back(
          static_cast<float>(load_element(tensor.data, tensor.dtype, tensor.at(b, n, h, c))));
    }
  }
  return values;
}

/// One row in f32, as a kernel on `simulation`'s lines computes it. `q`, `to`: head_dim values.
inline void simulate_row(const Problem& problem, const HeadValues& head, std::int64_t row,
                         const float* q, const Simulation& simulation, float* to) {
  const auto d = static_cast<std::size_t>(problem.head_dim);
  std::int64_t visible = problem.visible_keys(row);
  if (problem.mask == Mask::causal) {
    visible = std::clamp<std::int64_t>(visible + simulation.mask_shift, 0, problem.n_kv);
  }
  const auto keys = static_cast<std::size_t>(visible);
  std::vector<float> s(keys);
  for (std::size_t j = 0; j < keys; ++j) {
    float dot = 0;
    for (std::size_t c = 0; c < d; ++c) dot += q[c] * head.k[j * d + c];
    s[j] = dot * static_cast<float>(problem.scale);
    if (simulation.materialised) s[j] = round_to(problem.dtype, s[j]);
  }
  std::fill_n(to, d, 0.0F);
  if (visible == 0) return;
  const auto store_weight = [&](float p) {
    return simulation.fp8_weights ? round_to_fp8(p) : round_to(problem.dtype, p);
  };
  const auto dropped = [&](std::size_t j) {
    const auto key = static_cast<std::int64_t>(j);
    return key >= simulation.dropped_from && key < simulation.dropped_to;
  };
  const auto add = [&](float p, std::size_t j) {
    for (std::size_t c = 0; c < d; ++c) to[c] += p * head.v[j * d + c];
  };

  float m = -INFINITY;
  float l = 0;
  if (simulation.materialised) {
    m = *std::max_element(s.begin(), s.end());
    for (const float x : s) l += std::exp(x - m);
    for (std::size_t j = 0; j < keys; ++j) {
      if (!dropped(j)) add(store_weight(std::exp(s[j] - m) / l), j);
    }
    return;
  }
  const auto tile = static_cast<std::size_t>(simulation.tile);
  for (std::size_t start = 0; start < keys; start += tile) {
    const std::size_t end = std::min(keys, start + tile);
    float tile_max = m;
    for (std::size_t j = start; j < end; ++j) {
      if (!dropped(j)) tile_max = std::max(tile_max, s[j]);
    }
    if (tile_max == -INFINITY) continue;
    const float alpha = simulation.forget_rescale && start > 0 ? 1.0F : std::exp(m - tile_max);
    l *= alpha;
    for (std::size_t c = 0; c < d; ++c) to[c] *= alpha;
    m = tile_max;
    for (std::size_t j = start; j < end; ++j) {
      if (dropped(j)) continue;
      const float p = std::exp(s[j] - m);
      l += p;
      if (simulation.sum_in_dtype) l = round_to(problem.dtype, l);
      add(store_weight(p), j);
    }
    if (simulation.accumulator_in_dtype) {
      for (std::size_t c = 0; c < d; ++c) to[c] = round_to(problem.dtype, to[c]);
    }
  }
  for (std::size_t c = 0; c < d; ++c) to[c] /= l;
}

/// The simulated output of `rows`, rounded to the dtype: [rows, head_dim].
inline std::vector<double> simulate(const Problem& problem, const Operands& operands,
                                    const std::vector<RowId>& rows, const Simulation& simulation) {
  const auto d = static_cast<std::size_t>(problem.head_dim);
  std::vector<float> out(rows.size() * d);
  HeadValues head;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto [b, h, i] = rows[r];
    const std::int64_t kv_head = h / (problem.heads / problem.kv_heads);
    if (r == 0 || b != rows[r - 1].batch || h != rows[r - 1].head) {
      head.k = load_rows(operands.k, b, 0, problem.n_kv, kv_head);
      head.v = load_rows(operands.v, b, 0, problem.n_kv, kv_head);
    }
    const std::vector<float> q = load_rows(operands.q, b, i, 1, h);
    simulate_row(problem, head, i, q.data(), simulation, out.data() + r * d);
  }
  std::vector<double> rounded(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    rounded[i] = static_cast<double>(round_to(problem.dtype, out[i]));
  }
  return rounded;
}

}  // namespace flashbench::test
