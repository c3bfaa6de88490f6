// The approximations on CUDA: each against its namesake on the CPU, which is held against its own
// definition in tests/cpu_approximate_test.cpp; exact where it must be, and judged not exact where
// it is not.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "cpu_device.h"
#include "device_fixture.h"
#include "kernels/catalogue.h"
#include "reference/catalogue.h"
#include "verify.h"

namespace flashbench {
namespace {

constexpr Dtype kDtypes[] = {Dtype::f32, Dtype::f16, Dtype::bf16};
constexpr Mask kMasks[] = {Mask::none, Mask::causal};

class ApproximateTest : public KernelTest {
 protected:
  /// A copy of a test tensor in host memory.
  struct HostCopy {
    explicit HostCopy(const TestTensor& tensor) : bytes(tensor.bytes()), view(tensor.view()) {
      view.data = bytes.data() + tensor.index({0, 0, 0}, 0) * size_of(view.dtype);
    }
    std::vector<std::uint8_t> bytes;
    Tensor view;
  };

  static bool takes(const Implementation& implementation, const Problem& p) {
    return !implementation.unsupported(p, backend().device->info());
  }

  /// Output and log-sum-exp agree with those of `namesake` within what the dtype's rounding of
  /// weights and means can cause on normal data. Skips what `cuda` refuses.
  static void expect_same(const Implementation& cuda, const Implementation& namesake,
                          const Problem& p, Layout layout = Layout::contiguous) {
    SCOPED_TRACE(std::string(cuda.name()) + ", " + p.to_string() + ", layout " +
                 std::to_string(static_cast<int>(layout)));
    if (!takes(cuda, p)) return;
    TestTensor q(layout, p.dtype, p.batch, p.n_q, p.heads, p.head_dim);
    TestTensor k(layout, p.dtype, p.batch, p.n_kv, p.kv_heads, p.head_dim);
    TestTensor v(layout, p.dtype, p.batch, p.n_kv, p.kv_heads, p.head_dim);
    TestTensor o(layout, p.dtype, p.batch, p.n_q, p.heads, p.head_dim);
    const auto rows = static_cast<std::size_t>(p.rows());
    DeviceArray<float> lse(rows);
    DeviceArray<std::uint8_t> workspace(
        static_cast<std::size_t>(cuda.workspace_bytes(p, backend().device->info())));
    if (workspace.size() > 0) CUDA_CHECK(cudaMemset(workspace.data(), 0xff, workspace.size()));
    const Operands operands{q.view(), k.view(), v.view(), o.view(), lse.data()};
    backend().oracle->generate(p, {Distribution::normal, 1}, operands);
    HostCopy want(o);
    const HostCopy host_q(q);
    const HostCopy host_k(k);
    const HostCopy host_v(v);
    cuda.plan(p, operands, workspace.data(), *backend().device).enqueue(backend().device->stream());
    backend().device->synchronize();
    const HostCopy got(o);
    const std::vector<float> got_lse = lse.download(nullptr);

    CpuDevice cpu("test");
    std::vector<float> want_lse(rows);
    std::vector<std::max_align_t> scratch(
        static_cast<std::size_t>(namesake.workspace_bytes(p, cpu.info())) /
            sizeof(std::max_align_t) +
        1);
    namesake
        .plan(p, {host_q.view, host_k.view, host_v.view, want.view, want_lse.data()},
              scratch.data(), cpu)
        .enqueue(nullptr);

    const double tolerance = 16.0 * unit_roundoff(p.dtype) + 1e-5;
    // A key too many or too few shows in the log-sum-exp, which is f32's but where lowrank's
    // rounded means reach it.
    const double lse_tolerance = cuda.name() == "lowrank" ? tolerance : 1e-4;
    double worst = 0.0;
    double worst_lse = 0.0;
    for (std::int64_t b = 0; b < p.batch; ++b) {
      for (std::int64_t h = 0; h < p.heads; ++h) {
        for (std::int64_t n = 0; n < p.n_q; ++n) {
          for (std::int64_t c = 0; c < p.head_dim; ++c) {
            const std::int64_t at = got.view.at(b, n, h, c);
            const double error = std::abs(load_element(got.view.data, p.dtype, at) -
                                          load_element(want.view.data, p.dtype, at));
            worst = error <= worst ? worst : error;  // a NaN stays
          }
          const auto row = static_cast<std::size_t>((b * p.heads + h) * p.n_q + n);
          if (got_lse[row] == want_lse[row]) continue;  // -infinity without keys
          const double error =
              std::abs(static_cast<double>(got_lse[row]) - static_cast<double>(want_lse[row]));
          worst_lse = error <= worst_lse ? worst_lse : error;
        }
      }
    }
    EXPECT_LE(worst, tolerance);
    EXPECT_LE(worst_lse, lse_tolerance);
  }

  /// Shapes with partial tiles, groups, and the two lengths apart either way; more than enough keys
  /// that each approximation leaves some out.
  static void expect_same_everywhere(const Implementation& cuda, const Implementation& namesake) {
    if (const auto reason = namesake.unavailable(CpuDevice("test").info())) GTEST_SKIP() << *reason;
    for (const Dtype dtype : kDtypes) {
      for (const Mask mask : kMasks) {
        for (const std::int64_t d : {8, 40, 64, 96, 128, 200, 256}) {
          expect_same(cuda, namesake, problem(1, 4, 2, 700, 700, d, dtype, mask));
        }
        expect_same(cuda, namesake, problem(2, 6, 2, 300, 1100, 64, dtype, mask));
        expect_same(cuda, namesake, problem(2, 4, 1, 1100, 300, 64, dtype, mask));
        expect_same(cuda, namesake, problem(1, 2, 2, 1, 2049, 128, dtype, mask));
        expect_same(cuda, namesake, problem(1, 2, 2, 64, 512, 128, dtype, mask));
        expect_same(cuda, namesake, problem(1, 2, 2, 65, 3, 128, dtype, mask));
        for (const Layout layout : {Layout::heads_first, Layout::padded}) {
          expect_same(cuda, namesake, problem(2, 4, 2, 150, 800, 72, dtype, mask), layout);
        }
      }
    }
  }

  /// Exact up to `keys` keys (0: never), and at no more than `others` of them.
  void expect_verdicts(const Implementation& cuda, std::int64_t keys, std::int64_t others) {
    EXPECT_EQ(cuda.kind(), Kind::approximate);
    for (const Dtype dtype : kDtypes) {
      for (const Mask mask : kMasks) {
        for (const std::int64_t d : {64, 128, 256}) {
          if (keys == 0) break;
          const Problem same = problem(1, 4, 2, keys, keys, d, dtype, mask);
          if (takes(cuda, same)) expect_exact(cuda, same);
        }
        const Problem other = problem(1, 4, 2, others, others, 64, dtype, mask);
        if (!takes(cuda, other)) continue;
        const CaseOutcome outcome = judge_case(backend(), cuda, {"", other, InputSpec{}});
        EXPECT_EQ(outcome.status, Status::wrong) << other.to_string();
        ASSERT_TRUE(outcome.exactness.has_value()) << outcome.reason.value_or("");
        EXPECT_GT(outcome.exactness->bound_ratio, 1.0) << other.to_string();
      }
    }
  }
};

TEST_F(ApproximateTest, SlidingWindowIsItsNamesakeAndExactUpToItsWindow) {
  const auto window = make_sliding_window();
  expect_verdicts(*window, 256, 1024);
  expect_same_everywhere(*window, *make_cpu_sliding_window());
}

TEST_F(ApproximateTest, BlockTopkIsItsNamesakeAndExactUpToItsBlocks) {
  const auto topk = make_block_topk();
  expect_verdicts(*topk, 512, 2048);
  expect_same_everywhere(*topk, *make_cpu_block_topk());
}

TEST_F(ApproximateTest, LowrankIsItsNamesakeAndExactUpToItsRank) {
  const auto lowrank = make_lowrank();
  expect_verdicts(*lowrank, 64, 1024);
  expect_same_everywhere(*lowrank, *make_cpu_lowrank());
}

TEST_F(ApproximateTest, LinearIsItsNamesakeAndNotExact) {
  const auto linear = make_linear();
  expect_verdicts(*linear, 0, 300);
  expect_same_everywhere(*linear, *make_cpu_linear());
  for (const Dtype dtype : kDtypes) {
    expect_same(*linear, *make_cpu_linear(), problem(1, 2, 1, 70, 90, 24, dtype, Mask::causal),
                Layout::unaligned);
  }
}

TEST_F(ApproximateTest, RefusalsGiveTheReason) {
  const DeviceInfo& device = backend().device->info();
  const auto reason = [&](const Implementation& implementation, Dtype dtype, Mask mask) {
    return implementation.unsupported(problem(1, 1, 1, 4, 4, 64, dtype, mask), device).value_or("");
  };
  EXPECT_EQ(reason(*make_sliding_window(), Dtype::f32, Mask::none),
            "tensor cores take f16 and bf16, not f32");
  EXPECT_EQ(reason(*make_lowrank(), Dtype::bf16, Mask::causal),
            "a mean of keys mixes what a causal row sees with what it does not");
  EXPECT_EQ(reason(*make_linear(), Dtype::f32, Mask::causal), "");
}

}  // namespace
}  // namespace flashbench
