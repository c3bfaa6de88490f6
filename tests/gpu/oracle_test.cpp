#include "oracle.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>

#include "exactness.h"
#include "kernels/common/cuda_check.h"
#include "reference/device_array.h"
#include "reference/oracle.h"
#include "reference/oracle_cuda.h"

namespace flashbench {
namespace {

/// One problem's tensors on the device, and copies on the host.
class Twins {
 public:
  explicit Twins(const Problem& problem)
      : problem_(problem),
        q_(bytes(problem.q_elements())),
        k_(bytes(problem.kv_elements())),
        v_(bytes(problem.kv_elements())),
        o_(bytes(problem.q_elements())) {
    CUDA_CHECK(cudaMemset(o_.data(), 0xff, o_.size()));
  }

  Operands device() const { return operands(q_.data(), k_.data(), v_.data(), o_.data()); }
  Operands host() { return operands(host_q.data(), host_k.data(), host_v.data(), host_o.data()); }
  void download() {
    host_q = q_.download(nullptr);
    host_k = k_.download(nullptr);
    host_v = v_.download(nullptr);
    host_o = o_.download(nullptr);
  }

  std::vector<std::uint8_t> host_q, host_k, host_v, host_o;

 private:
  std::size_t bytes(std::int64_t elements) const {
    return static_cast<std::size_t>(elements * size_of(problem_.dtype));
  }
  Operands operands(void* q, void* k, void* v, void* o) const {
    const Problem& p = problem_;
    return {contiguous(q, p.dtype, p.batch, p.n_q, p.heads, p.head_dim),
            contiguous(k, p.dtype, p.batch, p.n_kv, p.kv_heads, p.head_dim),
            contiguous(v, p.dtype, p.batch, p.n_kv, p.kv_heads, p.head_dim),
            contiguous(o, p.dtype, p.batch, p.n_q, p.heads, p.head_dim), nullptr};
  }

  Problem problem_;
  DeviceArray<std::uint8_t> q_, k_, v_, o_;
};

Problem make_problem(Dtype dtype, Mask mask, std::int64_t n_q, std::int64_t n_kv, std::int64_t d,
                     std::int64_t heads = 4, std::int64_t kv_heads = 2) {
  Problem problem;
  problem.batch = 2;
  problem.heads = heads;
  problem.kv_heads = kv_heads;
  problem.n_q = n_q;
  problem.n_kv = n_kv;
  problem.head_dim = d;
  problem.dtype = dtype;
  problem.mask = mask;
  problem.scale = default_scale(d);
  return problem;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class CudaOracleTest : public testing::Test {
 protected:
  std::unique_ptr<Oracle> cuda_ = make_cuda_oracle(nullptr);
  std::unique_ptr<Oracle> cpu_ = make_cpu_oracle();
};

/// Places where two arrays of `dtype` differ in bits; NaNs of any bits are one value.
int differing(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b, Dtype dtype) {
  int count = 0;
  const auto elements = static_cast<std::int64_t>(a.size()) / size_of(dtype);
  for (std::int64_t i = 0; i < elements; ++i) {
    const double x = load_element(a.data(), dtype, i);
    const double y = load_element(b.data(), dtype, i);
    const bool same = std::isnan(x) || std::isnan(y) ? std::isnan(x) && std::isnan(y)
                                                     : x == y && std::signbit(x) == std::signbit(y);
    count += same ? 0 : 1;
  }
  return count;
}

TEST_F(CudaOracleTest, GeneratesTheSameBitsAsTheCpu) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    for (const Distribution distribution : distributions()) {
      const Problem problem = make_problem(dtype, Mask::causal, 70, 130, 72);
      Twins twins(problem);
      cuda_->generate(problem, {distribution, 11}, twins.device());
      twins.download();
      Twins mine(problem);
      mine.download();
      cpu_->generate(problem, {distribution, 11}, mine.host());
      const std::string what =
          std::string(to_string(dtype)) + " " + std::string(to_string(distribution));
      EXPECT_EQ(differing(mine.host_q, twins.host_q, dtype), 0) << what;
      EXPECT_EQ(differing(mine.host_k, twins.host_k, dtype), 0) << what;
      EXPECT_EQ(differing(mine.host_v, twins.host_v, dtype), 0) << what;
    }
  }
}

/// Largest |a - b| over max(|b|, floor); not finite in the same places.
double distance(const std::vector<double>& a, const std::vector<double>& b, double floor) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
      const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
      if (!same) return std::numeric_limits<double>::infinity();
      continue;
    }
    if (a[i] != b[i]) {
      largest = std::max(largest, std::fabs(a[i] - b[i]) / std::max(std::fabs(b[i]), floor));
    }
  }
  return largest;
}

void expect_same_truth(const OracleRows& cuda, const OracleRows& cpu, const std::string& what) {
  double size = 0;
  for (const double x : cpu.weight_sum) size = std::isfinite(x) ? std::max(size, x) : size;
  const double floor = 1e-3 * size;
  EXPECT_LT(distance(cuda.lse, cpu.lse, 1.0), 1e-12) << what;
  EXPECT_LT(distance(cuda.row_sum, cpu.row_sum, 0), 1e-10) << what;
  EXPECT_LT(distance(cuda.out, cpu.out, floor), 1e-10) << what;
  EXPECT_LT(distance(cuda.weight_sum, cpu.weight_sum, 0), 1e-10) << what;
  EXPECT_LT(distance(cuda.weight_square, cpu.weight_square, 0), 1e-9) << what;
  EXPECT_LT(distance(cuda.value_sum, cpu.value_sum, 0), 1e-10) << what;
  EXPECT_LT(distance(cuda.value_distance, cpu.value_distance, floor), 1e-9) << what;
  for (std::size_t t = 0; t < 2; ++t) {
    EXPECT_LT(distance(cuda.scores[t].lse_bound, cpu.scores[t].lse_bound, 1e-9), 1e-6) << what;
    // Sums of |v - o|: where all of a row's weight is on one key they are differences of equals.
    EXPECT_LT(distance(cuda.scores[t].bound, cpu.scores[t].bound, 1e-12 * size), 1e-3) << what;
    EXPECT_LT(distance(cuda.scores[t].variance, cpu.scores[t].variance, 1e-24 * size * size), 1e-3)
        << what;
  }
}

TEST_F(CudaOracleTest, AgreesWithTheCpuOnAllData) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    for (const Distribution distribution : distributions()) {
      const Problem problem = make_problem(dtype, Mask::causal, 65, 700, 64);
      Twins twins(problem);
      cuda_->generate(problem, {distribution, 3}, twins.device());
      twins.download();
      const std::vector<RowId> rows = select_rows(problem, 1e12, 0);
      expect_same_truth(cuda_->rows(problem, twins.device(), rows),
                        cpu_->rows(problem, twins.host(), rows),
                        std::string(to_string(dtype)) + " " + std::string(to_string(distribution)));
    }
  }
}

TEST_F(CudaOracleTest, AgreesWithTheCpuOnAllShapes) {
  struct Shape {
    std::int64_t n_q, n_kv, d, heads, kv_heads;
  };
  for (const Shape& shape :
       {Shape{1, 1, 1, 1, 1}, Shape{1, 5000, 128, 8, 1}, Shape{300, 20, 8, 2, 2},
        Shape{33, 257, 13, 6, 3}, Shape{5, 64, 256, 4, 4}, Shape{7, 300, 1100, 2, 1},
        Shape{600, 600, 40, 1, 1}, Shape{2, 70000, 32, 2, 1}}) {
    for (const Mask mask : {Mask::none, Mask::causal}) {
      const Problem problem = make_problem(Dtype::bf16, mask, shape.n_q, shape.n_kv, shape.d,
                                           shape.heads, shape.kv_heads);
      Twins twins(problem);
      cuda_->generate(problem, {Distribution::normal, 5}, twins.device());
      twins.download();
      const std::vector<RowId> rows = select_rows(problem, 1e12, 0);
      expect_same_truth(cuda_->rows(problem, twins.device(), rows),
                        cpu_->rows(problem, twins.host(), rows), problem.to_string());
    }
  }
}

TEST_F(CudaOracleTest, RepeatsBitForBit) {
  const Problem problem = make_problem(Dtype::f16, Mask::none, 3, 20000, 64);
  Twins twins(problem);
  cuda_->generate(problem, {Distribution::normal, 5}, twins.device());
  const std::vector<RowId> rows = select_rows(problem, 1e12, 0);
  const OracleRows a = cuda_->rows(problem, twins.device(), rows);
  const OracleRows b = cuda_->rows(problem, twins.device(), rows);
  EXPECT_EQ(a.out, b.out);
  EXPECT_EQ(a.scores[1].bound, b.scores[1].bound);
}

TEST_F(CudaOracleTest, LargestScoreAgrees) {
  for (const Distribution distribution : {Distribution::normal, Distribution::large,
                                          Distribution::non_finite_hidden, Distribution::offset}) {
    for (const Mask mask : {Mask::none, Mask::causal}) {
      const Problem problem = make_problem(Dtype::f16, mask, 150, 210, 24);
      Twins twins(problem);
      cuda_->generate(problem, {distribution, 5}, twins.device());
      twins.download();
      for (const double limit : {1e-3, 1e6}) {
        const double on_cpu = cpu_->largest_score(problem, twins.host(), limit);
        EXPECT_NEAR(cuda_->largest_score(problem, twins.device(), limit), on_cpu, 1e-10 * on_cpu);
      }
    }
  }
}

TEST_F(CudaOracleTest, ScanAgrees) {
  for (const std::int64_t d : {1, 8, 72, 300}) {
    const Problem problem = make_problem(Dtype::bf16, Mask::none, 130, 50, d);
    Twins a(problem);
    Twins b(problem);
    cuda_->generate(problem, {Distribution::normal, 5}, a.device());
    cuda_->generate(problem, {Distribution::normal, 5}, b.device());
    a.download();
    b.download();
    const auto compare = [&] {
      CUDA_CHECK(
          cudaMemcpy(a.device().q.data, a.host_q.data(), a.host_q.size(), cudaMemcpyHostToDevice));
      const Tensor other = b.device().q;
      const Tensor host_other = b.host().q;
      const OutputScan found = cuda_->scan(a.device().q, &other);
      const OutputScan wanted = cpu_->scan(a.host().q, &host_other);
      EXPECT_EQ(found.poisoned, wanted.poisoned);
      EXPECT_EQ(found.non_finite, wanted.non_finite);
      EXPECT_EQ(found.differing_elements, wanted.differing_elements);
      EXPECT_EQ(found.max_abs_difference, wanted.max_abs_difference);
      if (std::isfinite(wanted.max_row_difference)) {
        EXPECT_NEAR(found.max_row_difference, wanted.max_row_difference, 1e-12);
      } else {
        EXPECT_EQ(found.max_row_difference, wanted.max_row_difference);
      }
      if (wanted.max_row_difference > 0) {
        EXPECT_EQ(found.worst_row, wanted.worst_row);
      }
      return found;
    };
    EXPECT_EQ(compare().differing_elements, 0);
    const std::size_t middle = a.host_q.size() / 2;
    a.host_q[middle + 1] ^= 0x40U;
    EXPECT_EQ(compare().differing_elements, 1);
    std::memset(a.host_q.data() + middle, 0xff, 6);
    EXPECT_EQ(compare().poisoned, 3);
  }
}

// Elements beyond 2^31, and a head whose keys fill a batch of rows several times over.
TEST_F(CudaOracleTest, LargeProblems) {
  Problem problem = make_problem(Dtype::bf16, Mask::none, 1 << 20, 1 << 20, 128, 9, 9);
  problem.batch = 1;
  {
    const DeviceArray<std::uint16_t> q(static_cast<std::size_t>(problem.q_elements() * 2));
    ASSERT_GT(problem.q_elements() * 2, std::int64_t{1} << 31);
    Operands operands;
    operands.q = contiguous(q.data(), problem.dtype, 2, problem.n_q, 9, 128);
    problem.batch = 2;
    operands.k = operands.v = operands.o = operands.q;
    auto start = std::chrono::steady_clock::now();
    cuda_->generate(problem, {Distribution::normal, 5}, operands);
    const double fill_s = seconds_since(start);
    start = std::chrono::steady_clock::now();
    const OutputScan scan = cuda_->scan(operands.q, &operands.q);
    std::cout << "2.4e9 elements: filled 3 times in " << fill_s << " s, scanned in "
              << seconds_since(start) << " s\n";
    EXPECT_EQ(scan.non_finite, 0);
    // The last row, against the generator.
    std::vector<std::uint16_t> row(128);
    const std::int64_t last = operands.q.at(1, problem.n_q - 1, 8, 0);
    CUDA_CHECK(cudaMemcpy(row.data(), q.data() + last, 256, cudaMemcpyDeviceToHost));
    const OracleRows truth =
        cuda_->rows(problem, operands, std::vector<RowId>{{1, 8, problem.n_q - 1}});
    EXPECT_TRUE(std::isfinite(truth.lse[0]));
  }
  problem = make_problem(Dtype::bf16, Mask::none, 1 << 20, 1 << 20, 128, 1, 1);
  problem.batch = 1;
  Twins twins(problem);
  cuda_->generate(problem, {Distribution::normal, 5}, twins.device());
  const std::vector<RowId> rows = select_rows(problem, 1, 0);
  auto start = std::chrono::steady_clock::now();
  const OracleRows truth = cuda_->rows(problem, twins.device(), rows);
  std::cout << "N = 1M, d = 128: " << rows.size() << " rows in " << seconds_since(start) << " s\n";
  start = std::chrono::steady_clock::now();
  EXPECT_GT(cuda_->largest_score(problem, twins.device(), 65504.0), 5.0);
  std::cout << "score bound in " << seconds_since(start) << " s\n";
  twins.download();
  const std::vector<RowId> few(rows.begin() + 100, rows.begin() + 102);
  const OracleRows wanted = cpu_->rows(problem, twins.host(), few);
  const OracleRows again = cuda_->rows(problem, twins.device(), few);
  expect_same_truth(again, wanted, "N = 1M");
  EXPECT_LT(std::fabs(truth.out[std::size_t{100} * 128] - wanted.out[0]), 1e-12);

  problem = make_problem(Dtype::bf16, Mask::causal, 16384, 16384, 128, 16, 16);
  problem.batch = 1;
  Twins middle(problem);
  cuda_->generate(problem, {Distribution::normal, 5}, middle.device());
  const std::vector<RowId> many = select_rows(problem, 2e12, 0);
  start = std::chrono::steady_clock::now();
  cuda_->rows(problem, middle.device(), many);
  std::cout << problem.to_string() << ": " << many.size() << " rows in " << seconds_since(start)
            << " s\n";
  start = std::chrono::steady_clock::now();
  cuda_->largest_score(problem, middle.device(), 0);
  std::cout << "all its scores in " << seconds_since(start) << " s\n";
}

}  // namespace
}  // namespace flashbench
