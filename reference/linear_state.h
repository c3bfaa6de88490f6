#pragma once

#include <cstdint>

namespace flashbench {

/// phi(x) = elu(factor x) + 1 = exp(x) for x <= 0, 1 + x above, element by element.
void linear_features(const float* x, std::int64_t count, float factor, float* phi);

/// state [rows, columns] += a [rows] (outer product) b [columns].
void add_outer_product(const float* a, const float* b, std::int64_t rows, std::int64_t columns,
                       float* state);

/// out [columns] = a [rows] state [rows, columns].
void times_state(const float* a, const float* state, std::int64_t rows, std::int64_t columns,
                 float* out);

}  // namespace flashbench
