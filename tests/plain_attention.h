#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "implementation.h"
#include "oracle.h"
#include "problem.h"
#include "tensor.h"

namespace flashbench {

/// Attention by its definition in float64, on tensors in host memory.
struct PlainAttention {
  std::vector<double> out;        ///< [batch, n_q, heads, head_dim]
  std::vector<double> tolerance;  ///< of `out`, likewise
  std::vector<double> lse;        ///< [batch, heads, n_q]
  std::vector<double> lse_tolerance;
};

/// The tolerances are first-order error bounds of an exact algorithm, doubled for the higher
/// orders. With u = 2^-24, u_s and u_p the roundoffs of stored scores and weights, and, over the
/// row's visible keys, a = max scale sum_c |q_c k_c|, s = max |score|, n their number:
///   a score is wrong by   e = u ((head_dim + 4) a + 2 s) + u_s s    (dot product in any order;
///   scaling; storage) a weight by           2 e + 8 u + 2 u s + u_p                    (numerator
///   and sum; exponential; range reduction) the output by         that + n u  times  sum p_j |v_j|,
///   plus its own rounding, and half the least number for each
///                         weight and output that underflows.
/// `sees`: whether a row sees a key; by default what the mask says.
inline PlainAttention plain_attention(
    const Problem& problem, const Operands& operands, const Arithmetic& arithmetic,
    const std::function<bool(const RowId& row, std::int64_t key)>& sees = {}) {
  const auto dim = static_cast<std::size_t>(problem.head_dim);
  const double u = unit_roundoff(Dtype::f32);
  const double u_s = arithmetic.scores_in_dtype ? unit_roundoff(problem.dtype) : 0.0;
  const double u_p = arithmetic.weights_in_dtype ? unit_roundoff(problem.dtype) : 0.0;
  const double tiny_p = arithmetic.weights_in_dtype ? underflow_unit(problem.dtype) : 0x1p-125;
  const auto vector = [](const Tensor& t, std::int64_t b, std::int64_t n, std::int64_t h) {
    std::vector<double> values(static_cast<std::size_t>(t.shape[3]));
    for (std::size_t c = 0; c < values.size(); ++c) {
      values[c] = load_element(t.data, t.dtype, t.at(b, n, h, static_cast<std::int64_t>(c)));
    }
    return values;
  };
  PlainAttention plain;
  plain.out.resize(static_cast<std::size_t>(problem.q_elements()));
  plain.tolerance.resize(plain.out.size());
  plain.lse.resize(static_cast<std::size_t>(problem.rows()));
  plain.lse_tolerance.resize(plain.lse.size());
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    for (std::int64_t h = 0; h < problem.heads; ++h) {
      const std::int64_t kv = h / (problem.heads / problem.kv_heads);
      std::vector<std::vector<double>> k;
      std::vector<std::vector<double>> v;
      for (std::int64_t j = 0; j < problem.n_kv; ++j) {
        k.push_back(vector(operands.k, b, j, kv));
        v.push_back(vector(operands.v, b, j, kv));
      }
      for (std::int64_t i = 0; i < problem.n_q; ++i) {
        const std::vector<double> q = vector(operands.q, b, i, h);
        std::vector<double> weights;
        std::vector<std::size_t> keys;  // what the row sees
        double most = -std::numeric_limits<double>::infinity();
        double a = 0.0;
        double largest = 0.0;
        for (std::int64_t j = 0; j < problem.n_kv; ++j) {
          const bool unmasked = problem.mask == Mask::none || j <= i + problem.n_kv - problem.n_q;
          if (!(sees ? sees({b, h, i}, j) : unmasked)) continue;
          double score = 0.0;
          double magnitude = 0.0;
          for (std::size_t c = 0; c < dim; ++c) {
            const double product = q[c] * k[static_cast<std::size_t>(j)][c];
            score += product;
            magnitude += std::abs(product);
          }
          keys.push_back(static_cast<std::size_t>(j));
          weights.push_back(score * problem.scale);
          a = std::max(a, magnitude * problem.scale);
          largest = std::max(largest, std::abs(weights.back()));
          most = std::max(most, weights.back());
        }
        double sum = 0.0;
        for (double& weight : weights) sum += weight = std::exp(weight - most);
        const auto n = static_cast<double>(weights.size());
        const double score_error =
            u * ((static_cast<double>(problem.head_dim) + 4.0) * a + 2.0 * largest) + u_s * largest;
        const double weight_error = 2.0 * score_error + 8.0 * u + 2.0 * u * largest + u_p;
        const auto row = static_cast<std::size_t>((b * problem.heads + h) * problem.n_q + i);
        plain.lse[row] = most + std::log(sum);  // log(0) and -infinity where nothing is visible
        plain.lse_tolerance[row] =
            2.0 * (score_error + (n + 8.0) * u + u * std::abs(plain.lse[row]));
        const auto at = static_cast<std::size_t>((b * problem.n_q + i) * problem.heads + h) * dim;
        std::vector<double> magnitude(dim);
        std::vector<double> underflow(dim);
        for (std::size_t j = 0; j < weights.size(); ++j) {
          for (std::size_t c = 0; c < dim; ++c) {
            plain.out[at + c] += weights[j] / sum * v[keys[j]][c];
            magnitude[c] += weights[j] / sum * std::abs(v[keys[j]][c]);
            underflow[c] += tiny_p * std::abs(v[keys[j]][c]);
          }
        }
        for (std::size_t c = 0; c < dim; ++c) {
          plain.tolerance[at + c] =
              2.0 * ((weight_error + n * u) * magnitude[c] + underflow[c] +
                     unit_roundoff(problem.dtype) * std::abs(plain.out[at + c])) +
              underflow_unit(problem.dtype);
        }
      }
    }
  }
  return plain;
}

}  // namespace flashbench
