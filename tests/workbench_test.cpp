#include "workbench.h"

#include <gtest/gtest.h>

#include "error.h"
#include "fakes.h"

namespace flashbench {
namespace {

constexpr Problem kProblem{.batch = 2,
                           .heads = 4,
                           .kv_heads = 2,
                           .n_q = 5,
                           .n_kv = 7,
                           .head_dim = 8,
                           .dtype = Dtype::bf16};

TEST(Workbench, CountsEveryByteInTheArenaAndGivesItBack) {
  FakeDevice device;
  Arena arena(device);
  {
    const Workbench bench(arena, device, kProblem, 3, 1000, true);
    const std::int64_t q = 2 * kProblem.q_elements();
    const std::int64_t kv = 2 * kProblem.kv_elements();
    const std::int64_t lse = 4 * kProblem.rows();
    EXPECT_EQ(arena.current_bytes(), q + 2 * kv + 1000 + q + 3 * (q + lse));
  }
  EXPECT_EQ(arena.current_bytes(), 0);
  EXPECT_EQ(device.live_allocations(), 0U);
}

TEST(Workbench, OutputsShareInputsAndNothingElse) {
  FakeDevice device;
  Arena arena(device);
  const Workbench bench(arena, device, kProblem, 2, 0, true);
  const Operands first = bench.operands(0);
  const Operands second = bench.operands(1);
  EXPECT_EQ(first.q.data, second.q.data);
  EXPECT_EQ(first.v.data, second.v.data);
  EXPECT_NE(first.o.data, second.o.data);
  EXPECT_NE(first.lse, second.lse);
  EXPECT_EQ(first.k.shape, (std::array<std::int64_t, 4>{2, 7, 2, 8}));
  EXPECT_EQ(first.o.shape, (std::array<std::int64_t, 4>{2, 5, 4, 8}));
  EXPECT_EQ(bench.workspace(), nullptr);
}

TEST(Workbench, PoisonIsNanInEveryDtype) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    FakeDevice device;
    Arena arena(device);
    Problem problem = kProblem;
    problem.dtype = dtype;
    Workbench bench(arena, device, problem, 1, 0);
    bench.poison(0);
    EXPECT_TRUE(std::isnan(load_element(bench.operands(0).o.data, dtype, 11)));
  }
}

// The same rows one by one and, past the threshold, out of one whole copy.
TEST(Workbench, ReadsRowsInTheOrderAskedFor) {
  FakeDevice device;
  Arena arena(device);
  Workbench bench(arena, device, kProblem, 1, 0);
  const Tensor o = bench.operands(0).o;
  for (std::int64_t i = 0; i < kProblem.q_elements(); ++i) {
    store_element(o.data, o.dtype, i, static_cast<float>(i % 251));
  }
  for (const std::size_t repeats : {std::size_t{1}, std::size_t{2000}}) {
    std::vector<RowId> rows;
    for (std::size_t i = 0; i < repeats; ++i) {
      rows.push_back({1, 3, 4});
      rows.push_back({0, 1, 2});
    }
    const std::vector<double> values = bench.read_rows(0, rows);
    ASSERT_EQ(values.size(), rows.size() * 8);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (std::int64_t c = 0; c < 8; ++c) {
        const std::int64_t index = ((rows[r].batch * 5 + rows[r].row) * 4 + rows[r].head) * 8 + c;
        EXPECT_EQ(values[r * 8 + static_cast<std::size_t>(c)], static_cast<double>(index % 251));
      }
    }
  }
}

TEST(Workbench, KeepCopiesIntoTheSpareOutput) {
  FakeDevice device;
  Arena arena(device);
  Workbench bench(arena, device, kProblem, 2, 0);
  store_element(bench.operands(1).o.data, Dtype::bf16, 9, 3.0F);
  bench.keep(1);
  bench.poison(1);
  EXPECT_EQ(load_element(bench.spare().data, Dtype::bf16, 9), 3.0);
}

TEST(Workbench, RefusedAllocationThrowsAndLeavesNothing) {
  FakeDevice device(4096);
  Arena arena(device);
  EXPECT_THROW(Workbench(arena, device, kProblem, 2, 1 << 20), OutOfMemory);
  EXPECT_EQ(arena.current_bytes(), 0);
  EXPECT_EQ(device.live_allocations(), 0U);
}

}  // namespace
}  // namespace flashbench
