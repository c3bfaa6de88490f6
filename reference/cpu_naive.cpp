#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "error.h"
#include "parallel.h"
#include "reference/catalogue.h"
#include "reference/cpu_rows.h"
#include "reference/cpu_traffic.h"
#include "reference/openblas.h"
#include "reference/scratch_loop.h"

namespace flashbench {
namespace {

/// How the matrices are cut: one product of OpenBLAS a thread.
struct NaiveShape {
  std::int64_t row_block = 0;      ///< queries of one product
  std::int64_t key_block = 0;      ///< keys of one product: all for f32
  std::int64_t scratch_bytes = 0;  ///< of a thread: 16-bit operands as f32

  std::int64_t row_blocks(const Problem& problem) const {
    return (problem.n_q + row_block - 1) / row_block;
  }
};

NaiveShape naive_shape(const Problem& problem) {
  NaiveShape shape;
  // Large blocks repack K and V less often; small ones keep all cores busy to the end.
  const std::int64_t items = std::int64_t{4} * cpu_threads();
  const std::int64_t heads = checked_multiply(problem.batch, problem.heads);
  const std::int64_t wanted = std::max<std::int64_t>(1, items / heads);
  shape.row_block = std::clamp<std::int64_t>((problem.n_q + wanted - 1) / wanted, 1, 512);
  shape.key_block = problem.n_kv;
  if (problem.dtype == Dtype::f32) return shape;
  shape.row_block = std::min<std::int64_t>(shape.row_block, 256);
  shape.key_block = std::min<std::int64_t>(problem.n_kv, 512);
  const std::int64_t product =
      shape.row_block * shape.key_block +
      checked_multiply(shape.row_block + shape.key_block, problem.head_dim);
  const std::int64_t floats = std::max(product, problem.n_kv);  // softmax takes a row
  shape.scratch_bytes = scratch_bytes(floats);
  return shape;
}

/// The three steps of one problem. Scores and weights: [batch, heads, n_q, n_kv] in the dtype, in
/// the workspace.
class Naive {
 public:
  Naive(const Problem& problem, const Operands& operands, void* workspace)
      : problem_(problem),
        operands_(operands),
        shape_(naive_shape(problem)),
        sgemm_(openblas().sgemm),
        s_(workspace),
        scratch_(static_cast<char*>(workspace) + padded_score_bytes(problem)) {
    for (const Tensor* tensor : {&operands_.q, &operands_.k, &operands_.v, &operands_.o})
      check(*tensor);
  }

  /// The scores' bytes, rounded up so that the scratch behind them is aligned.
  static std::int64_t padded_score_bytes(const Problem& problem) {
    const std::int64_t bytes = checked_multiply(problem.score_elements(), size_of(problem.dtype));
    return problem.dtype == Dtype::f32 ? bytes : checked_add(bytes, 255) / 256 * 256;
  }

  /// S = scale Q K^T.
  void scores() const {
    for_each_block([&](const Item& item, float* scratch) {
      float* q = scratch;
      float* k = q + shape_.row_block * problem_.head_dim;
      float* s = k + shape_.key_block * problem_.head_dim;
      const Matrix queries = matrix(operands_.q, item.batch, item.row, item.head, item.rows, q);
      for (std::int64_t key = 0; key < problem_.n_kv; key += shape_.key_block) {
        const std::int64_t keys = std::min(shape_.key_block, problem_.n_kv - key);
        const Matrix part = matrix(operands_.k, item.batch, key, item.kv_head, keys, k);
        const std::int64_t to = score(item.batch, item.head, item.row) + key;
        const bool direct = problem_.dtype == Dtype::f32;
        float* out = direct ? static_cast<float*>(s_) + to : s;
        const std::int64_t out_stride = direct ? problem_.n_kv : keys;
        multiply(CblasTrans, item.rows, keys, problem_.head_dim, static_cast<float>(problem_.scale),
                 queries, part, 0.0F, {out, out_stride});
        if (!direct) store_matrix(s, item.rows, keys, s_, problem_.dtype, to, problem_.n_kv);
      }
    });
  }

  /// P = softmax(S) in place.
  void softmax() const {
    constexpr std::int64_t kRows = 16;
    for_each(problem_.batch * problem_.heads * ((problem_.n_q + kRows - 1) / kRows),
             [&](std::int64_t i, float* scratch) {
               const std::int64_t blocks = (problem_.n_q + kRows - 1) / kRows;
               const std::int64_t head = i / blocks;
               const std::int64_t first = i % blocks * kRows;
               for (std::int64_t row = first; row < std::min(first + kRows, problem_.n_q); ++row) {
                 const std::int64_t line = head * problem_.n_q + row;
                 const float lse = softmax_row(s_, problem_.dtype, line * problem_.n_kv,
                                               problem_.visible_keys(row), problem_.n_kv, scratch);
                 if (operands_.lse != nullptr) operands_.lse[line] = lse;
               }
             });
  }

  /// O = P V.
  void values() const {
    for_each_block([&](const Item& item, float* scratch) {
      float* o = scratch;
      float* v = o + shape_.row_block * problem_.head_dim;
      float* p = v + shape_.key_block * problem_.head_dim;
      const bool direct = problem_.dtype == Dtype::f32;
      const std::int64_t to = operands_.o.at(item.batch, item.row, item.head, 0);
      const std::int64_t to_stride = stride(operands_.o);
      const Matrix out = direct ? Matrix{static_cast<float*>(operands_.o.data) + to, to_stride}
                                : Matrix{o, problem_.head_dim};
      for (std::int64_t key = 0; key < problem_.n_kv; key += shape_.key_block) {
        const std::int64_t keys = std::min(shape_.key_block, problem_.n_kv - key);
        const Matrix part = matrix(operands_.v, item.batch, key, item.kv_head, keys, v);
        const std::int64_t from = score(item.batch, item.head, item.row) + key;
        if (!direct) load_matrix(s_, problem_.dtype, from, problem_.n_kv, item.rows, keys, p);
        const Matrix weights =
            direct ? Matrix{static_cast<float*>(s_) + from, problem_.n_kv} : Matrix{p, keys};
        multiply(CblasNoTrans, item.rows, problem_.head_dim, keys, 1.0F, weights, part,
                 key == 0 ? 0.0F : 1.0F, out);
      }
      if (!direct)
        store_matrix(o, item.rows, problem_.head_dim, operands_.o.data, problem_.dtype, to,
                     to_stride);
    });
  }

 private:
  struct Item {
    std::int64_t batch;
    std::int64_t head;
    std::int64_t kv_head;
    std::int64_t row;  ///< first
    std::int64_t rows;
  };

  struct Matrix {
    float* data;
    std::int64_t stride;
  };

  /// OpenBLAS counts in 32 bits and wants rows that do not overlap.
  void check(const Tensor& tensor) const {
    if (tensor.shape[1] > 1 &&
        (tensor.stride[1] < problem_.head_dim || tensor.stride[1] > kLargest)) {
      throw Error(
          fmt::format("cpu-naive: rows {} elements apart do not suit OpenBLAS (head_dim {} to {})",
                      tensor.stride[1], problem_.head_dim, kLargest));
    }
  }

  std::int64_t stride(const Tensor& tensor) const {
    return tensor.shape[1] > 1 ? tensor.stride[1] : problem_.head_dim;
  }

  std::int64_t score(std::int64_t batch, std::int64_t head, std::int64_t row) const {
    return ((batch * problem_.heads + head) * problem_.n_q + row) * problem_.n_kv;
  }

  /// Rows [row, row + rows) of one head as f32: in place, or converted into `scratch`.
  Matrix matrix(const Tensor& tensor, std::int64_t batch, std::int64_t row, std::int64_t head,
                std::int64_t rows, float* scratch) const {
    const std::int64_t at = tensor.at(batch, row, head, 0);
    if (problem_.dtype == Dtype::f32)
      return {static_cast<float*>(tensor.data) + at, stride(tensor)};
    load_matrix(tensor.data, problem_.dtype, at, stride(tensor), rows, problem_.head_dim, scratch);
    return {scratch, problem_.head_dim};
  }

  void multiply(CBLAS_TRANSPOSE transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
                float alpha, Matrix a, Matrix b, float beta, Matrix c) const {
    sgemm_(CblasRowMajor, CblasNoTrans, transpose_b, static_cast<blasint>(m),
           static_cast<blasint>(n), static_cast<blasint>(k), alpha, a.data,
           static_cast<blasint>(a.stride), b.data, static_cast<blasint>(b.stride), beta, c.data,
           static_cast<blasint>(c.stride));
  }

  /// work(i, scratch of the thread) for i < count on all cores.
  template <typename Work>
  void for_each(std::int64_t count, const Work& work) const {
    for_each_with_scratch(count, scratch_, shape_.scratch_bytes, work);
  }

  template <typename Work>
  void for_each_block(const Work& work) const {
    const std::int64_t blocks = shape_.row_blocks(problem_);
    for_each(problem_.batch * problem_.heads * blocks, [&](std::int64_t i, float* scratch) {
      const std::int64_t head = i / blocks % problem_.heads;
      const std::int64_t row = i % blocks * shape_.row_block;
      work(Item{i / blocks / problem_.heads, head, head / (problem_.heads / problem_.kv_heads), row,
                std::min(shape_.row_block, problem_.n_q - row)},
           scratch);
    });
  }

 public:
  static constexpr std::int64_t kLargest = std::numeric_limits<blasint>::max();

 private:
  Problem problem_;
  Operands operands_;
  NaiveShape shape_;
  decltype(&cblas_sgemm) sgemm_;
  void* s_;
  char* scratch_;
};

/// What "standard attention" means: all scores of all heads in memory between three steps, each
/// with all cores. f16 and bf16 are storage; OpenBLAS multiplies in f32. OpenBLAS' own packing
/// buffers are not counted.
class CpuNaive : public Implementation {
 public:
  std::string_view name() const override { return "cpu-naive"; }
  std::string_view description() const override {
    return "materialised: OpenBLAS product, softmax, OpenBLAS product; every score goes through "
           "memory";
  }
  DeviceKind device() const override { return DeviceKind::cpu; }
  Kind kind() const override { return Kind::naive; }

  std::optional<std::string> unsupported(const Problem& problem,
                                         const DeviceInfo& device) const override {
    if (auto reason = unavailable(device)) return reason;
    const std::int64_t row = checked_multiply(problem.heads, problem.head_dim);
    if (std::max({problem.n_q, problem.n_kv, row}) > Naive::kLargest) {
      return fmt::format(
          "OpenBLAS counts in 32 bits: n_q, n_kv and heads x head_dim may be {} at most",
          Naive::kLargest);
    }
    return std::nullopt;
  }

  std::optional<std::string> unavailable(const DeviceInfo& /*device*/) const override {
    return openblas_refusal();
  }

  Arithmetic arithmetic(const Problem& /*problem*/) const override {
    return {.scores_in_dtype = true,
            .weights_in_dtype = true,
            .weights_normalised = true,
            .tensor_core_sums = false};
  }

  std::int64_t workspace_bytes(const Problem& problem,
                               const DeviceInfo& /*device*/) const override {
    return checked_add(Naive::padded_score_bytes(problem),
                       checked_multiply(naive_shape(problem).scratch_bytes, cpu_threads()));
  }

  std::optional<std::vector<StepModel>> model(const Problem& problem,
                                              const DeviceInfo& device) const override {
    const std::int64_t size = size_of(problem.dtype);
    const std::int64_t q_bytes = problem.q_elements() * size;
    const std::int64_t scores =
        handed_on_bytes(checked_multiply(problem.score_elements(), size), device);
    // Each block of rows passes over the keys, or the values, of its head.
    const std::int64_t kv_bytes =
        reread_bytes(problem.kv_elements() * size, problem.n_kv * problem.head_dim * size,
                     naive_shape(problem).row_blocks(problem), device);
    const double flops =
        2.0 * static_cast<double>(problem.score_elements()) * static_cast<double>(problem.head_dim);
    return std::vector<StepModel>{
        {"QKᵀ", q_bytes + kv_bytes, scores, MatrixUnit::fma_f32, flops, 0.0},
        {"softmax", scores, scores, MatrixUnit::none, 0.0, problem.exps()},
        {"PV", scores + kv_bytes, q_bytes, MatrixUnit::fma_f32, flops, 0.0},
    };
  }

  Plan plan(const Problem& problem, const Operands& operands, void* workspace,
            Device& /*device*/) const override {
    const auto naive = std::make_shared<Naive>(problem, operands, workspace);
    Plan plan;
    plan.choices["gemm"] = openblas().description;
    plan.choices["row_block"] = fmt::format("{}", naive_shape(problem).row_block);
    plan.steps = {{"QKᵀ", [naive](Stream /*stream*/) { naive->scores(); }},
                  {"softmax", [naive](Stream /*stream*/) { naive->softmax(); }},
                  {"PV", [naive](Stream /*stream*/) { naive->values(); }}};
    return plan;
  }
};

}  // namespace

std::unique_ptr<Implementation> make_cpu_naive() {
  return std::make_unique<CpuNaive>();
}

}  // namespace flashbench
