#include "curve.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "sample_run.h"

namespace flashbench {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<ChartPoint> power(double exponent, std::int64_t from, std::int64_t to) {
  std::vector<ChartPoint> points;
  for (std::int64_t n = from; n <= to; n *= 2) {
    const auto x = static_cast<double>(n);
    points.push_back({x, 3 * std::pow(x, exponent)});
  }
  return points;
}

/// The default sweep of a GPU: naive stops fitting at 128k.
flashbench::Run default_run() {
  flashbench::Run run = sample_run();
  for (std::int64_t n = 512; n <= 131072; n *= 2) {
    const double squared = static_cast<double>(n) * static_cast<double>(n);
    Cell naive = ok_cell(sample_problem(n), "naive", Kind::naive, 4e-11 * squared + 5e-6);
    if (naive.memory.needed_bytes > naive.memory.free_bytes) {
      naive = ended_cell(sample_problem(n), "naive", Kind::naive, Status::out_of_memory, "too big");
    }
    run.cells.push_back(naive);
    run.cells.push_back(ok_cell(sample_problem(n), "fused", Kind::fused, 1.4e-11 * squared));
  }
  return run;
}

TEST(Growth, ExactPowersComeBack) {
  for (const double exponent : {-1.0, 0.0, 0.5, 1.0, 2.0, 3.0}) {
    const auto growth = fit_growth(power(exponent, 512, 65536));
    ASSERT_TRUE(growth.has_value());
    EXPECT_NEAR(growth->exponent, exponent, 1e-12);
  }
}

TEST(Growth, TheUpperHalfCounts) {
  // A constant that dominates up to 4096, then squares.
  std::vector<ChartPoint> points;
  for (std::int64_t n = 256; n <= 65536; n *= 2) {
    const auto x = static_cast<double>(n);
    points.push_back({x, std::max(4096.0 * 4096.0, x * x)});
  }
  const auto growth = fit_growth(points);
  ASSERT_TRUE(growth.has_value());
  EXPECT_NEAR(growth->exponent, 2.0, 1e-12);
  EXPECT_EQ(growth->x_low, 4096);
  EXPECT_EQ(growth->x_high, 65536);
  EXPECT_EQ(growth->points, 5U);
}

TEST(Growth, LeastSquaresOverNoise) {
  // Three points off the line by +e, -2e, +e: symmetric, so that the slope stays.
  const std::vector<ChartPoint> points{
      {1, std::exp(0.1)}, {std::numbers::e, std::exp(2 - 0.2)}, {std::exp(2.0), std::exp(4 + 0.1)}};
  EXPECT_NEAR(fit_growth(points)->exponent, 2.0, 1e-12);
  // And one that tilts it: the slope of (0, 0), (1, 0), (2, 3) is 1.5.
  const std::vector<ChartPoint> tilted{
      {1, 1}, {std::numbers::e, 1}, {std::exp(2.0), std::exp(3.0)}};
  EXPECT_NEAR(fit_growth(tilted)->exponent, 1.5, 1e-12);
}

TEST(Growth, TooFewPoints) {
  EXPECT_FALSE(fit_growth({}).has_value());
  EXPECT_FALSE(fit_growth(std::vector<ChartPoint>{{1, 1}}).has_value());
  EXPECT_FALSE(fit_growth(std::vector<ChartPoint>{{1, 1}, {1, 2}}).has_value());
  EXPECT_FALSE(fit_growth(std::vector<ChartPoint>{{1, 1}, {2, 0}, {4, std::nan("")}}).has_value());
  EXPECT_EQ(fit_growth(std::vector<ChartPoint>{{1, 1}, {2, 4}})->points, 2U);
}

TEST(Curves, TheDefaultSweep) {
  const std::string text = curves(default_run(), {});
  EXPECT_THAT(text, AllOf(HasSubstr("Peak memory against N, B1 H16 d128 bf16\n"),
                          HasSubstr("Time against N, B1 H16 d128 bf16\n")));
  EXPECT_THAT(text, HasSubstr("* naive  grows as N^1.97 (N = 8k to 64k), workspace as N^2.00\n"));
  EXPECT_THAT(text, HasSubstr("o fused  grows as N^1.00 (N = 8k to 128k), no workspace\n"));
  EXPECT_THAT(text, HasSubstr("* naive  grows as N^2.00 (N = 8k to 64k)\n"));
  EXPECT_THAT(text, HasSubstr("naive stopped fitting at N = 128k: it needs 514 GiB, 139 GiB are "
                              "free; fused takes 2.00 GiB at N = 128k\n"));
  EXPECT_THAT(text, HasSubstr("- memory of the device: 140 GiB"));
}

TEST(Curves, NoWallNoWords) {
  flashbench::Run run = default_run();
  std::erase_if(run.cells, [](const Cell& cell) { return cell.status != Status::ok; });
  EXPECT_THAT(curves(run, {}), AllOf(Not(HasSubstr("stopped fitting")),
                                     Not(HasSubstr("memory of the device")), HasSubstr("naive")));
}

TEST(Curves, OneLengthIsNoCurve) {
  flashbench::Run run = sample_run();
  run.cells.push_back(ok_cell(sample_problem(512), "naive", Kind::naive, 1e-3));
  EXPECT_THAT(curves(run, {}), IsEmpty());
  EXPECT_THAT(curves(sample_run(), {}), IsEmpty());
}

TEST(Curves, WrongCellsAreLeftOut) {
  flashbench::Run run = default_run();
  for (Cell& cell : run.cells) {
    if (cell.implementation != "fused") continue;
    cell.status = Status::wrong;
    cell.time->median_s = 1e-9;
  }
  EXPECT_THAT(curves(run, {}), AllOf(HasSubstr("naive  grows"), Not(HasSubstr("fused  grows"))));
}

TEST(Curves, TimesTooShortDoNotCountForGrowth) {
  flashbench::Run run = default_run();
  for (Cell& cell : run.cells) {
    if (cell.implementation == "fused" && cell.problem.n_q < 32768) cell.time->too_short = true;
  }
  EXPECT_THAT(curves(run, {}), HasSubstr("o fused  grows as N^2.00 (N = 32k to 128k)\n"));
}

TEST(Curves, LibrariesStayOutBesideNaiveAndFused) {
  flashbench::Run run = default_run();
  for (std::int64_t n : {512, 1024}) {
    run.cells.push_back(ok_cell(sample_problem(n), "vendor", Kind::library, 1e-3));
  }
  EXPECT_THAT(curves(run, {}), Not(HasSubstr("vendor")));
  std::erase_if(run.cells, [](const Cell& cell) { return cell.kind != Kind::library; });
  EXPECT_THAT(curves(run, {}), HasSubstr("vendor"));
}

TEST(Curves, KeysAloneMayBeTheAxis) {
  flashbench::Run run = sample_run();
  for (std::int64_t n = 1024; n <= 8192; n *= 2) {
    Problem decode = sample_problem(n);
    decode.n_q = 1;
    run.cells.push_back(ok_cell(decode, "fused", Kind::fused, 1e-9 * static_cast<double>(n)));
  }
  EXPECT_THAT(curves(run, {}), HasSubstr("fused  grows as N^1.00 (N = 2k to 8k)"));
}

TEST(Curves, AGridOfQueriesAndKeysIsNoCurve) {
  flashbench::Run run = sample_run();
  for (const std::int64_t n_q : {1, 16}) {
    for (const std::int64_t n_kv : {1024, 2048}) {
      Problem problem = sample_problem(n_kv);
      problem.n_q = n_q;
      run.cells.push_back(ok_cell(problem, "fused", Kind::fused, 1e-3));
    }
  }
  EXPECT_THAT(curves(run, {}), IsEmpty());
}

TEST(Curves, EachSectionHasItsOwn) {
  flashbench::Run run = default_run();
  const std::vector<Cell> cells = run.cells;
  for (Cell cell : cells) {
    cell.problem.mask = Mask::causal;
    run.cells.push_back(cell);
  }
  EXPECT_THAT(curves(run, {}),
              AllOf(HasSubstr("N, B1 H16 d128 bf16\n"), HasSubstr("N, B1 H16 d128 bf16 causal\n")));
}

}  // namespace
}  // namespace flashbench
