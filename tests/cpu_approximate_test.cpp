// The approximations on the CPU: each against its own definition in float64, exact where it must
// be, and judged not exact where it is not.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "attention_case.h"
#include "exactness.h"
#include "reference/catalogue.h"
#include "reference/oracle.h"

namespace flashbench {
namespace {

/// Keys, or values, of one head as [row][column].
std::vector<std::vector<double>> rows_of(const HostTensor& tensor, std::int64_t batch,
                                         std::int64_t head) {
  const Tensor& view = tensor.view();
  std::vector<std::vector<double>> rows(static_cast<std::size_t>(view.shape[1]));
  for (std::size_t n = 0; n < rows.size(); ++n) {
    for (std::int64_t c = 0; c < view.shape[3]; ++c) {
      rows[n].push_back(load_element(view.data, view.dtype,
                                     view.at(batch, static_cast<std::int64_t>(n), head, c)));
    }
  }
  return rows;
}

std::vector<double> mean_of(const std::vector<std::vector<double>>& rows, std::size_t first,
                            std::size_t last) {
  std::vector<double> mean(rows[0].size());
  for (std::size_t r = first; r < last; ++r) {
    for (std::size_t c = 0; c < mean.size(); ++c)
      mean[c] += rows[r][c] / static_cast<double>(last - first);
  }
  return mean;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// The verdict on what `implementation` computes for normal inputs.
Exactness judgement(const Implementation& implementation, const Problem& problem) {
  AttentionCase drawn(problem);
  CpuDevice device("test");
  const HostWorkspace workspace(implementation.workspace_bytes(problem, device.info()));
  implementation.plan(problem, drawn.operands(), workspace.data(), device).enqueue(nullptr);
  const std::vector<RowId> rows = select_rows(problem, 1e8, 1);
  const auto oracle = make_cpu_oracle();
  const OracleRows truth = oracle->rows(problem, drawn.operands(), rows);
  std::vector<double> got;
  for (const RowId& row : rows) {
    for (std::int64_t c = 0; c < problem.head_dim; ++c) {
      got.push_back(load_element(drawn.o.bytes().data(), problem.dtype,
                                 drawn.o.view().at(row.batch, row.row, row.head, c)));
    }
  }
  return judge(problem, implementation.arithmetic(problem), truth, got, true);
}

/// Exact at `exact_keys`, and at no more than `others`: not exact.
void expect_verdicts(const Implementation& implementation, std::int64_t exact_keys,
                     std::int64_t others, Mask mask) {
  EXPECT_EQ(implementation.kind(), Kind::approximate);
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    if (exact_keys > 0) {
      const Exactness same =
          judgement(implementation, make_problem(1, 4, 2, exact_keys, exact_keys, 64, dtype, mask));
      EXPECT_EQ(same.verdict, Verdict::exact)
          << to_string(dtype) << ": " << same.reason.value_or("");
    }
    const Exactness other =
        judgement(implementation, make_problem(1, 4, 2, others, others, 64, dtype, mask));
    EXPECT_EQ(other.verdict, Verdict::not_exact) << to_string(dtype);
    EXPECT_GT(other.bound_ratio, 1.0) << to_string(dtype);
  }
}

TEST(CpuSlidingWindowTest, AttendsToTheWindow) {
  const auto window = make_cpu_sliding_window();
  for (const auto& [n_q, n_kv] : {std::pair{600, 600}, {300, 700}, {700, 300}, {1, 900}, {70, 3}}) {
    for (const Mask mask : {Mask::none, Mask::causal}) {
      AttentionCase drawn(make_problem(2, 4, 2, n_q, n_kv, 24, Dtype::f32, mask), Layout::gaps);
      const Problem& problem = drawn.problem;
      drawn.expect_right(*window, [&](const RowId& row, std::int64_t key) {
        const std::int64_t own =
            std::clamp<std::int64_t>(row.row + problem.n_kv - problem.n_q, 0, problem.n_kv - 1);
        return key < problem.visible_keys(row.row) && std::abs(key - own) < 256;
      });
    }
  }
}

TEST(CpuSlidingWindowTest, IsExactUpToItsWindowAndNotBeyond) {
  for (const Mask mask : {Mask::none, Mask::causal})
    expect_verdicts(*make_cpu_sliding_window(), 256, 1024, mask);
}

TEST(CpuBlockTopkTest, AttendsToTheBlocksWithTheLargestMeans) {
  const auto topk = make_cpu_block_topk();
  for (const Mask mask : {Mask::none, Mask::causal}) {
    AttentionCase drawn(make_problem(1, 4, 2, 1000, 1100, 16, Dtype::f32, mask), Layout::gaps);
    const Problem& problem = drawn.problem;
    // kept[head][query block][key block]
    std::vector<std::vector<std::vector<bool>>> kept;
    for (std::int64_t head = 0; head < problem.heads; ++head) {
      const auto queries = rows_of(drawn.q, 0, head);
      const auto keys = rows_of(drawn.k, 0, head / 2);
      kept.emplace_back();
      for (std::size_t row = 0; row < 1000; row += 64) {
        const std::size_t end = std::min<std::size_t>(row + 64, 1000);
        const auto seen =
            static_cast<std::size_t>(problem.visible_keys(static_cast<std::int64_t>(end) - 1));
        const auto least =
            static_cast<std::size_t>(problem.visible_keys(static_cast<std::int64_t>(row)));
        const std::vector<double> query = mean_of(queries, row, end);
        std::vector<std::pair<double, std::size_t>> ranked;
        for (std::size_t block = 0; block * 64 < seen; ++block) {
          const double score =
              dot(query, mean_of(keys, block * 64, std::min<std::size_t>(block * 64 + 64, 1100)));
          const bool diagonal = mask == Mask::causal && block >= (least - 1) / 64;
          ranked.emplace_back(diagonal ? -1e9 : -score, block);
        }
        std::sort(ranked.begin(), ranked.end());
        std::vector<bool> flags(18);
        for (std::size_t i = 0; i < std::min<std::size_t>(8, ranked.size()); ++i)
          flags[ranked[i].second] = true;
        kept.back().push_back(flags);
      }
    }
    drawn.expect_right(*topk, [&](const RowId& row, std::int64_t key) {
      return key < problem.visible_keys(row.row) &&
             kept[static_cast<std::size_t>(row.head)][static_cast<std::size_t>(row.row / 64)]
                 [static_cast<std::size_t>(key / 64)];
    });
  }
}

TEST(CpuBlockTopkTest, KeepsAKeyForEveryRowThatSeesOne) {
  AttentionCase drawn(make_problem(1, 1, 1, 900, 700, 8, Dtype::bf16, Mask::causal));
  CpuDevice device("test");
  const auto topk = make_cpu_block_topk();
  const HostWorkspace workspace(topk->workspace_bytes(drawn.problem, device.info()));
  topk->plan(drawn.problem, drawn.operands(), workspace.data(), device).enqueue(nullptr);
  for (std::size_t row = 0; row < 900; ++row)
    EXPECT_EQ(std::isinf(drawn.lse[row]), row < 200) << row;
}

TEST(CpuBlockTopkTest, KeepsEachBlockOnceWhereScoresOverflow) {
  // Products of 1e38 add up to infinities and NaNs, of which none is larger than another. Five
  // blocks for eight places: the workspace has no room for one of them twice.
  AttentionCase drawn(make_problem(1, 1, 1, 100, 300, 16));
  std::mt19937 generator = seeded(4);
  for (HostTensor* tensor : {&drawn.q, &drawn.k}) {
    tensor->fill([&] { return generator() % 2 == 0 ? 1e19F : -1e19F; });
  }
  CpuDevice device("test");
  const auto topk = make_cpu_block_topk();
  const std::int64_t bytes = topk->workspace_bytes(drawn.problem, device.info());
  std::vector<char> guarded(static_cast<std::size_t>(bytes) + 512 + 65536, 'g');
  char* workspace = guarded.data() + (256 - reinterpret_cast<std::uintptr_t>(guarded.data()) % 256);
  topk->plan(drawn.problem, drawn.operands(), workspace, device).enqueue(nullptr);
  EXPECT_EQ(std::count(workspace + bytes, workspace + bytes + 65536, 'g'), 65536);
}

TEST(CpuBlockTopkTest, IsExactUpToItsBlocksAndNotBeyond) {
  for (const Mask mask : {Mask::none, Mask::causal})
    expect_verdicts(*make_cpu_block_topk(), 512, 1024, mask);
}

TEST(CpuLowrankTest, AttendsToTheMeans) {
  const auto lowrank = make_cpu_lowrank();
  for (const std::int64_t n_kv : {1, 63, 64, 65, 200, 1000}) {
    AttentionCase drawn(make_problem(2, 4, 2, 70, n_kv, 20), Layout::gaps);
    // The definition: attention to the means. 64 segments, the first ones one longer.
    const std::int64_t segments = std::min<std::int64_t>(64, n_kv);
    HostTensor keys(Dtype::f32, {2, segments, 2, 20}, Layout::contiguous);
    HostTensor values(Dtype::f32, {2, segments, 2, 20}, Layout::contiguous);
    for (const auto& [from, to] : {std::pair{&drawn.k, &keys}, {&drawn.v, &values}}) {
      for (std::int64_t b = 0; b < 2; ++b) {
        for (std::int64_t h = 0; h < 2; ++h) {
          const auto rows = rows_of(*from, b, h);
          std::size_t first = 0;
          for (std::int64_t s = 0; s < segments; ++s) {
            const std::size_t last =
                first + static_cast<std::size_t>(n_kv / segments + (s < n_kv % segments ? 1 : 0));
            const std::vector<double> mean = mean_of(rows, first, last);
            for (std::int64_t c = 0; c < 20; ++c) {
              store_element(to->bytes().data(), Dtype::f32, to->view().at(b, s, h, c),
                            static_cast<float>(mean[static_cast<std::size_t>(c)]));
            }
            first = last;
          }
        }
      }
    }
    Problem pooled = drawn.problem;
    pooled.n_kv = segments;
    Operands operands = drawn.operands();
    operands.k = keys.view();
    operands.v = values.view();
    PlainAttention plain = plain_attention(pooled, operands, lowrank->arithmetic(pooled));
    // The means themselves are sums of up to 16 values in f32.
    for (double& tolerance : plain.tolerance) tolerance *= 4.0;
    for (double& tolerance : plain.lse_tolerance) tolerance *= 4.0;
    drawn.expect_output(*lowrank, plain);
  }
}

TEST(CpuLowrankTest, IsExactUpToItsRankAndNotBeyond) {
  expect_verdicts(*make_cpu_lowrank(), 64, 1024, Mask::none);
  const auto reason = make_cpu_lowrank()->unsupported(
      make_problem(1, 1, 1, 8, 8, 8, Dtype::f32, Mask::causal), DeviceInfo{});
  EXPECT_TRUE(reason.has_value());
}

TEST(CpuLinearTest, IsTheRatioOfItsSums) {
  const auto linear = make_cpu_linear();
  for (const auto& [n_q, n_kv] : {std::pair{50, 50}, {20, 70}, {70, 20}, {1, 1}}) {
    for (const Mask mask : {Mask::none, Mask::causal}) {
      AttentionCase drawn(make_problem(2, 4, 2, n_q, n_kv, 19, Dtype::f32, mask), Layout::gaps);
      const Problem& problem = drawn.problem;
      const auto phi = [&](std::vector<double> x) {
        for (double& value : x) {
          value *= std::sqrt(problem.scale);
          value = value > 0.0 ? value + 1.0 : std::exp(value);
        }
        return x;
      };
      PlainAttention plain;
      plain.lse.resize(static_cast<std::size_t>(problem.rows()));
      plain.lse_tolerance.assign(plain.lse.size(), 1e-5);
      plain.out.resize(static_cast<std::size_t>(problem.q_elements()));
      plain.tolerance.assign(plain.out.size(), 1e-5);
      for (std::int64_t b = 0; b < 2; ++b) {
        for (std::int64_t h = 0; h < 4; ++h) {
          const auto q = rows_of(drawn.q, b, h);
          const auto k = rows_of(drawn.k, b, h / 2);
          const auto v = rows_of(drawn.v, b, h / 2);
          for (std::int64_t i = 0; i < n_q; ++i) {
            double sum = 0.0;
            std::vector<double> out(19);
            for (std::int64_t j = 0; j < problem.visible_keys(i); ++j) {
              const auto key = static_cast<std::size_t>(j);
              const double weight = dot(phi(q[static_cast<std::size_t>(i)]), phi(k[key]));
              sum += weight;
              for (std::size_t c = 0; c < 19; ++c) out[c] += weight * v[key][c];
            }
            plain.lse[static_cast<std::size_t>((b * 4 + h) * n_q + i)] = std::log(sum);
            for (std::size_t c = 0; c < 19; ++c) {
              plain.out[static_cast<std::size_t>((b * n_q + i) * 4 + h) * 19 + c] =
                  sum > 0.0 ? out[c] / sum : 0.0;
            }
          }
        }
      }
      drawn.expect_output(*linear, plain);
    }
  }
}

TEST(CpuLinearTest, IsNotExact) {
  for (const Mask mask : {Mask::none, Mask::causal})
    expect_verdicts(*make_cpu_linear(), 0, 300, mask);
}

TEST(CpuApproximateTest, ModelsStayBelowTheExactOnes) {
  DeviceInfo device;
  device.l2_bytes = std::int64_t{256} << 20U;
  const Problem problem = make_problem(1, 8, 8, 8192, 8192, 64);
  const Catalogue catalogue = cpu_catalogue();
  int approximate = 0;
  for (const auto& implementation : catalogue) {
    if (implementation->kind() != Kind::approximate) continue;
    ++approximate;
    SCOPED_TRACE(implementation->name());
    EXPECT_LT(implementation->workspace_bytes(problem, device), problem.score_elements() * 4 / 10);
    const auto steps = implementation->model(problem, device);
    ASSERT_TRUE(steps);
    double flops = 0.0;
    std::int64_t read = 0;
    for (const StepModel& step : *steps) {
      flops += step.matrix_flops;
      read += step.read_bytes;
    }
    EXPECT_GT(flops, 0.0);
    EXPECT_LT(flops, problem.flops() / 5);
    EXPECT_GE(read, (problem.q_elements() + 2 * problem.kv_elements()) * 4);
  }
  EXPECT_EQ(approximate, 4);
}

}  // namespace
}  // namespace flashbench
