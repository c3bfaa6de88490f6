#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "cpu_device.h"
#include "implementation.h"
#include "plain_attention.h"

namespace flashbench {

/// Drawn alike on every run.
inline std::mt19937 seeded(unsigned seed) {
  return std::mt19937(seed);
}

/// How the four axes of a tensor lie in memory.
enum class Layout : std::uint8_t {
  contiguous,   ///< batch, rows, heads, head_dim
  heads_first,  ///< batch, heads, rows, head_dim
  gaps          ///< as contiguous, but with unused elements after each head, row and batch
};

/// A tensor in host memory of its own, which ends with its last element: a sanitizer sees what
/// reads on.
class HostTensor {
 public:
  HostTensor(Dtype dtype, std::array<std::int64_t, 4> shape, Layout layout) {
    const auto [batch, rows, heads, dim] = shape;
    view_.dtype = dtype;
    view_.shape = shape;
    switch (layout) {
      case Layout::contiguous: view_.stride = {rows * heads * dim, heads * dim, dim, 1}; break;
      case Layout::heads_first: view_.stride = {rows * heads * dim, dim, rows * dim, 1}; break;
      case Layout::gaps: {
        const std::int64_t head = dim + 3;
        const std::int64_t row = heads * head + 5;
        view_.stride = {rows * row + 7, row, head, 1};
        break;
      }
    }
    bytes_.resize(static_cast<std::size_t>((view_.at(batch - 1, rows - 1, heads - 1, dim - 1) + 1) *
                                           size_of(dtype)));
    view_.data = bytes_.data();
    poison();
  }

  const Tensor& view() const { return view_; }
  std::vector<char>& bytes() { return bytes_; }
  /// NaN everywhere, the gaps too.
  void poison() { std::fill(bytes_.begin(), bytes_.end(), '\xff'); }

  void for_each(const std::function<void(std::int64_t at)>& visit) const {
    for (std::int64_t b = 0; b < view_.shape[0]; ++b) {
      for (std::int64_t n = 0; n < view_.shape[1]; ++n) {
        for (std::int64_t h = 0; h < view_.shape[2]; ++h) {
          for (std::int64_t d = 0; d < view_.shape[3]; ++d) visit(view_.at(b, n, h, d));
        }
      }
    }
  }

  void fill(const std::function<float()>& next) {
    for_each([&](std::int64_t at) { store_element(bytes_.data(), view_.dtype, at, next()); });
  }

 private:
  Tensor view_;
  std::vector<char> bytes_;
};

/// Memory for a workspace of exactly so many bytes, 256-byte aligned and poisoned.
class HostWorkspace {
 public:
  explicit HostWorkspace(std::int64_t bytes)
      : bytes_(static_cast<std::size_t>(bytes)),
        data_(bytes == 0 ? nullptr : ::operator new(bytes_, kAlign)) {
    if (data_ != nullptr) std::memset(data_, 0xff, bytes_);
  }
  HostWorkspace(const HostWorkspace&) = delete;
  HostWorkspace& operator=(const HostWorkspace&) = delete;
  ~HostWorkspace() {
    if (data_ != nullptr) ::operator delete(data_, kAlign);
  }
  void* data() const { return data_; }

 private:
  static constexpr std::align_val_t kAlign{256};
  std::size_t bytes_;
  void* data_;
};

/// A problem with tensors, ready to be computed.
class AttentionCase {
 public:
  explicit AttentionCase(const Problem& of, Layout layout = Layout::contiguous)
      : problem(of),
        q(of.dtype, {of.batch, of.n_q, of.heads, of.head_dim}, layout),
        k(of.dtype, {of.batch, of.n_kv, of.kv_heads, of.head_dim}, layout),
        v(of.dtype, {of.batch, of.n_kv, of.kv_heads, of.head_dim}, layout),
        o(of.dtype, {of.batch, of.n_q, of.heads, of.head_dim}, layout),
        lse(static_cast<std::size_t>(of.rows()), std::numeric_limits<float>::quiet_NaN()) {
    std::mt19937 generator = seeded(7);
    std::normal_distribution<float> normal;
    for (HostTensor* tensor : {&q, &k, &v}) tensor->fill([&] { return normal(generator); });
  }

  Operands operands() {
    return {q.view(), k.view(), v.view(), o.view(), with_lse ? lse.data() : nullptr};
  }

  /// Computes, compares with the definition, computes again and compares the bits. `sees`: as in
  /// plain_attention().
  void expect_right(const Implementation& implementation,
                    const std::function<bool(const RowId& row, std::int64_t key)>& sees = {}) {
    expect_output(implementation,
                  plain_attention(problem, operands(), implementation.arithmetic(problem), sees));
  }

  /// The same for an output that is known.
  void expect_output(const Implementation& implementation, const PlainAttention& plain) {
    SCOPED_TRACE(std::string(implementation.name()) + " " + problem.to_string());
    static CpuDevice device("test");
    ASSERT_EQ(implementation.unsupported(problem, device.info()), std::nullopt);
    const HostWorkspace workspace(implementation.workspace_bytes(problem, device.info()));
    const Plan plan = implementation.plan(problem, operands(), workspace.data(), device);
    plan.enqueue(nullptr);
    compare(plain);
    const std::vector<char> first = o.bytes();
    const std::vector<float> first_lse = lse;
    o.poison();
    plan.enqueue(nullptr);
    EXPECT_EQ(first, o.bytes()) << "a second run differs, or wrote between the elements";
    EXPECT_EQ(0, std::memcmp(first_lse.data(), lse.data(), lse.size() * sizeof(float)));
  }

  Problem problem;
  HostTensor q;
  HostTensor k;
  HostTensor v;
  HostTensor o;
  bool with_lse = true;
  std::vector<float> lse;

 private:
  void compare(const PlainAttention& plain) {
    std::size_t at = 0;
    int wrong = 0;
    o.for_each([&](std::int64_t element) {
      const double got = load_element(o.bytes().data(), problem.dtype, element);
      const std::size_t i = at++;
      // A comparison with NaN is false.
      if (std::abs(got - plain.out[i]) <= plain.tolerance[i] || ++wrong > 3) return;
      ADD_FAILURE() << "element " << i << " (column "
                    << static_cast<std::int64_t>(i) % problem.head_dim << "): got " << got
                    << ", want " << plain.out[i] << " within " << plain.tolerance[i];
    });
    EXPECT_EQ(wrong, 0) << "of " << at << " elements";
    for (std::size_t i = 0; with_lse && i < lse.size(); ++i) {
      if (std::isinf(plain.lse[i])) {
        EXPECT_EQ(static_cast<double>(lse[i]), plain.lse[i]) << "row " << i;
      } else {
        EXPECT_NEAR(static_cast<double>(lse[i]), plain.lse[i], plain.lse_tolerance[i])
            << "row " << i;
      }
    }
  }
};

/// A problem written briefly; scale 1 / sqrt(head_dim).
inline Problem make_problem(std::int64_t batch, std::int64_t heads, std::int64_t kv_heads,
                            std::int64_t n_q, std::int64_t n_kv, std::int64_t head_dim,
                            Dtype dtype = Dtype::f32, Mask mask = Mask::none) {
  return {batch, heads, kv_heads, n_q, n_kv, head_dim, dtype, mask, default_scale(head_dim)};
}

/// What every exact CPU implementation must get right.
inline void expect_right_everywhere(const Implementation& implementation) {
  const std::int64_t sizes[] = {1, 2, 7, 31, 48, 49, 127, 128, 129, 300};
  std::mt19937 generator = seeded(1);
  const auto pick = [&](auto... values) {
    const std::int64_t all[] = {values...};
    return all[std::uniform_int_distribution<std::size_t>(0, sizeof...(values) - 1)(generator)];
  };
  // Every pair of lengths, the rest drawn: each value meets many others.
  for (const std::int64_t n_q : sizes) {
    for (const std::int64_t n_kv : sizes) {
      const std::int64_t kv_heads = pick(1, 2);
      const auto dtype = static_cast<Dtype>(pick(0, 1, 2));
      const auto mask = static_cast<Mask>(pick(0, 1));
      const std::int64_t head_dim = pick(1, 3, 8, 17, 64, 80, 128);
      AttentionCase drawn(make_problem(pick(1, 2), kv_heads * pick(1, 3, 4), kv_heads, n_q, n_kv,
                                       head_dim, dtype, mask),
                          static_cast<Layout>(pick(0, 1, 2)));
      drawn.with_lse = pick(0, 1) == 1;
      drawn.expect_right(implementation);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace flashbench
