#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "backend.h"
#include "exactness.h"
#include "inputs.h"
#include "reference/device_array.h"

namespace flashbench {

/// Where the elements of a tensor lie in memory.
enum class Layout : std::uint8_t {
  contiguous,   ///< batch, rows, heads, head_dim
  heads_first,  ///< batch, heads, rows, head_dim
  padded,       ///< gaps behind each row and each batch, every row 16-byte aligned
  unaligned     ///< odd strides, and the first element off any vector's boundary
};

/// A tensor in device memory of its own, every byte of which starts as poison: gaps between its
/// rows too.
class TestTensor {
 public:
  TestTensor(Layout layout, Dtype dtype, std::int64_t batch, std::int64_t rows, std::int64_t heads,
             std::int64_t head_dim) {
    const std::int64_t d = head_dim;
    view_ = contiguous(nullptr, dtype, batch, rows, heads, d);
    if (layout == Layout::heads_first) view_.stride = {rows * heads * d, d, rows * d, 1};
    if (layout == Layout::padded) {
      view_.stride = {rows * (heads * d + 16) + 32, heads * d + 16, d, 1};
    }
    if (layout == Layout::unaligned) {
      view_.stride = {rows * heads * (d + 1) + 3, heads * (d + 1), d + 1, 1};
    }
    const std::int64_t lead = layout == Layout::unaligned ? 1 : 0;
    const std::int64_t elements = lead + batch * view_.stride[0] + 64;
    memory_ = std::make_unique<DeviceArray<std::uint8_t>>(
        static_cast<std::size_t>(elements * size_of(dtype)));
    view_.data = memory_->data() + lead * size_of(dtype);
    offset_ = lead;
    poison();
  }

  const Tensor& view() const { return view_; }
  void poison() { CUDA_CHECK(cudaMemset(memory_->data(), 0xff, memory_->size())); }
  std::vector<std::uint8_t> bytes() const { return memory_->download(nullptr); }

  /// Index of an element within bytes(), counted in elements.
  std::int64_t index(const RowId& row, std::int64_t column) const {
    return offset_ + view_.at(row.batch, row.row, row.head, column);
  }

 private:
  Tensor view_;
  std::int64_t offset_ = 0;
  std::unique_ptr<DeviceArray<std::uint8_t>> memory_;
};

/// Runs CUDA implementations on problems and holds what they write against the float64 oracle.
class KernelTest : public testing::Test {
 protected:
  /// One for the whole program: a backend holds a flush buffer and a cuBLAS handle.
  static Backend& backend() {
    static Backend shared = make_cuda_backend();
    return shared;
  }

  static Problem problem(std::int64_t batch, std::int64_t heads, std::int64_t kv_heads,
                         std::int64_t n_q, std::int64_t n_kv, std::int64_t head_dim, Dtype dtype,
                         Mask mask) {
    Problem p;
    p.batch = batch;
    p.heads = heads;
    p.kv_heads = kv_heads;
    p.n_q = n_q;
    p.n_kv = n_kv;
    p.head_dim = head_dim;
    p.dtype = dtype;
    p.mask = mask;
    p.scale = default_scale(head_dim);
    p.validate();
    return p;
  }

  struct Options {
    Layout layout = Layout::contiguous;
    Distribution distribution = Distribution::normal;
    bool lse = true;
    std::uint64_t seed = 1;
    double oracle_budget = 2e10;  ///< operations; beyond it rows are sampled
    Device* device = nullptr;     ///< that plans, where not the backend's own
  };

  /// One launch of `implementation` is exact, writes nothing but its output, and a second gives the
  /// same bits.
  void expect_exact(const Implementation& implementation, const Problem& p) {
    expect_exact(implementation, p, Options{});
  }
  void expect_exact(const Implementation& implementation, const Problem& p,
                    const Options& options) {
    SCOPED_TRACE(std::string(implementation.name()) + ", " + p.to_string() + ", layout " +
                 std::to_string(static_cast<int>(options.layout)) + ", " +
                 std::string(to_string(options.distribution)));
    Device& device = options.device != nullptr ? *options.device : *backend().device;
    ASSERT_EQ(implementation.unsupported(p, device.info()).value_or(""), "");

    TestTensor q(options.layout, p.dtype, p.batch, p.n_q, p.heads, p.head_dim);
    TestTensor k(options.layout, p.dtype, p.batch, p.n_kv, p.kv_heads, p.head_dim);
    TestTensor v(options.layout, p.dtype, p.batch, p.n_kv, p.kv_heads, p.head_dim);
    TestTensor o(options.layout, p.dtype, p.batch, p.n_q, p.heads, p.head_dim);
    const auto rows_total = static_cast<std::size_t>(p.rows());
    DeviceArray<float> lse(options.lse ? rows_total : 0);
    if (options.lse) CUDA_CHECK(cudaMemset(lse.data(), 0xff, rows_total * sizeof(float)));
    const std::int64_t workspace_bytes = implementation.workspace_bytes(p, device.info());
    DeviceArray<std::uint8_t> workspace(static_cast<std::size_t>(workspace_bytes));
    if (workspace_bytes > 0) CUDA_CHECK(cudaMemset(workspace.data(), 0xff, workspace.size()));
    const Operands operands{q.view(), k.view(), v.view(), o.view(),
                            options.lse ? lse.data() : nullptr};
    backend().oracle->generate(p, {options.distribution, options.seed}, operands);

    const Plan plan = implementation.plan(p, operands, workspace.data(), device);
    plan.enqueue(backend().device->stream());
    backend().device->synchronize();
    const std::vector<std::uint8_t> first = o.bytes();
    const std::vector<float> first_lse = lse.download(nullptr);
    o.poison();
    plan.enqueue(backend().device->stream());
    backend().device->synchronize();
    EXPECT_EQ(o.bytes(), first) << "a second launch gave other bits";
    const std::vector<float> second_lse = lse.download(nullptr);
    EXPECT_TRUE(options.lse == false ||
                std::memcmp(second_lse.data(), first_lse.data(), rows_total * sizeof(float)) == 0)
        << "a second launch gave another log-sum-exp";

    expect_poison_between_rows(p, o, first);
    expect_rows_exact(implementation, p, options, operands, o, first, first_lse);
  }

 private:
  static void expect_poison_between_rows(const Problem& p, const TestTensor& o,
                                         const std::vector<std::uint8_t>& bytes) {
    const auto size = static_cast<std::size_t>(size_of(p.dtype));
    std::vector<bool> owned(bytes.size() / size, false);
    for (std::int64_t b = 0; b < p.batch; ++b) {
      for (std::int64_t n = 0; n < p.n_q; ++n) {
        for (std::int64_t h = 0; h < p.heads; ++h) {
          const auto at = static_cast<std::size_t>(o.index({b, h, n}, 0));
          for (std::size_t c = 0; c < static_cast<std::size_t>(p.head_dim); ++c)
            owned[at + c] = true;
        }
      }
    }
    std::size_t touched = 0;
    for (std::size_t i = 0; i < owned.size(); ++i) {
      if (owned[i]) continue;
      for (std::size_t e = 0; e < size; ++e) touched += bytes[i * size + e] == 0xff ? 0 : 1;
    }
    EXPECT_EQ(touched, 0U) << "bytes written outside of the output's rows";
  }

  void expect_rows_exact(const Implementation& implementation, const Problem& p,
                         const Options& options, const Operands& operands, const TestTensor& o,
                         const std::vector<std::uint8_t>& bytes, const std::vector<float>& lse) {
    const std::vector<RowId> rows = select_rows(p, options.oracle_budget, options.seed);
    const OracleRows truth = backend().oracle->rows(p, operands, rows);
    std::vector<double> got;
    std::vector<double> got_lse;
    for (const RowId& row : rows) {
      for (std::int64_t c = 0; c < p.head_dim; ++c) {
        got.push_back(load_element(bytes.data(), p.dtype, o.index(row, c)));
      }
      if (options.lse) {
        got_lse.push_back(
            lse[static_cast<std::size_t>((row.batch * p.heads + row.head) * p.n_q + row.row)]);
      }
    }
    const Arithmetic arithmetic = implementation.arithmetic(p);
    Exactness exactness = judge(p, arithmetic, truth, got, is_generic(options.distribution));
    if (options.lse) judge_lse(p, arithmetic, truth, got_lse, exactness);
    EXPECT_EQ(exactness.verdict, Verdict::exact)
        << exactness.reason.value_or("") << "; bound_ratio " << exactness.bound_ratio
        << ", row_noise " << exactness.row_noise.value_or(-1) << ", worst: batch "
        << exactness.worst.row.batch << " head " << exactness.worst.row.head << " row "
        << exactness.worst.row.row << " column " << exactness.worst.column << " got "
        << exactness.worst.got << " want " << exactness.worst.want;
  }
};

}  // namespace flashbench
