#include "grid.h"

#include <gmock/gmock.h>

#include <functional>
#include <string>

#include "error.h"

namespace flashbench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

GridSpec small() {
  GridSpec spec;
  spec.n = {512, 1024};
  spec.heads = {4};
  spec.head_dim = {64};
  spec.dtype = {Dtype::f32};
  spec.mask = {Mask::none};
  return spec;
}

std::vector<std::string> texts(const std::vector<Problem>& problems) {
  std::vector<std::string> names;
  for (const Problem& problem : problems) names.push_back(problem.to_string());
  return names;
}

std::string fault_of(const std::function<void(GridSpec&)>& change) {
  GridSpec spec = small();
  change(spec);
  try {
    make_grid(spec);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Grid, LengthVariesFastest) {
  GridSpec spec = small();
  spec.dtype = {Dtype::bf16, Dtype::f16};
  spec.mask = {Mask::none, Mask::causal};
  EXPECT_THAT(
      texts(make_grid(spec)),
      ElementsAre("B1 H4 N512 d64 bf16", "B1 H4 N1024 d64 bf16", "B1 H4 N512 d64 bf16 causal",
                  "B1 H4 N1024 d64 bf16 causal", "B1 H4 N512 d64 f16", "B1 H4 N1024 d64 f16",
                  "B1 H4 N512 d64 f16 causal", "B1 H4 N1024 d64 f16 causal"));
}

TEST(Grid, ScaleFollowsTheHeadDimension) {
  GridSpec spec = small();
  spec.head_dim = {64, 256};
  const auto problems = make_grid(spec);
  EXPECT_EQ(problems.front().scale, 0.125);
  EXPECT_EQ(problems.back().scale, 0.0625);
}

TEST(Grid, QueriesAndKeysApart) {
  GridSpec spec = small();
  spec.n.clear();
  spec.n_q = {1, 2};
  spec.n_kv = {100, 200};
  EXPECT_THAT(texts(make_grid(spec)), ElementsAre("B1 H4 N1x100 d64 f32", "B1 H4 N1x200 d64 f32",
                                                  "B1 H4 N2x100 d64 f32", "B1 H4 N2x200 d64 f32"));
}

TEST(Grid, TokensSetTheBatch) {
  GridSpec spec = small();
  spec.n = {512, 1000, 4096};
  spec.tokens = {2048};
  EXPECT_THAT(texts(make_grid(spec)),
              ElementsAre("B4 H4 N512 d64 f32", "B2 H4 N1000 d64 f32", "B1 H4 N4096 d64 f32"));
}

TEST(Grid, HiddenSetsTheHeads) {
  GridSpec spec = small();
  spec.n = {512};
  spec.heads.clear();
  spec.hidden = {2048};
  spec.head_dim = {64, 128};
  EXPECT_THAT(texts(make_grid(spec)), ElementsAre("B1 H32 N512 d64 f32", "B1 H16 N512 d128 f32"));
}

TEST(Grid, GroupedHeads) {
  GridSpec spec = small();
  spec.n = {512};
  spec.kv_heads = {4, 1};
  EXPECT_THAT(texts(make_grid(spec)), ElementsAre("B1 H4 N512 d64 f32", "B1 H4/1 N512 d64 f32"));
}

TEST(Grid, ClashesNameBothOptions) {
  EXPECT_THAT(fault_of([](GridSpec& s) { s.n_q = {1}; }), HasSubstr("--n and --n-q"));
  EXPECT_THAT(fault_of([](GridSpec& s) { s.n_kv = {1}; }), HasSubstr("--n and --n-kv"));
  EXPECT_THAT(fault_of([](GridSpec& s) { s.batch = {1}, s.tokens = {1}; }),
              HasSubstr("--batch and --tokens"));
  EXPECT_THAT(fault_of([](GridSpec& s) { s.hidden = {64}; }), HasSubstr("--heads and --hidden"));
}

TEST(Grid, HalvesNeedTheirOther) {
  EXPECT_THAT(fault_of([](GridSpec& s) { s.n.clear(), s.n_q = {1}; }),
              HasSubstr("--n-q needs --n-kv"));
  EXPECT_THAT(fault_of([](GridSpec& s) { s.n.clear(), s.n_kv = {1}; }),
              HasSubstr("--n-kv needs --n-q"));
  EXPECT_THAT(fault_of([](GridSpec& s) { s.n.clear(), s.n_q = {1}, s.n_kv = {1}, s.tokens = {8}; }),
              HasSubstr("--tokens"));
  EXPECT_THAT(fault_of([](GridSpec& s) { s.n.clear(); }), HasSubstr("--n"));
}

TEST(Grid, WidthsThatDoNotDivide) {
  EXPECT_THAT(fault_of([](GridSpec& s) { s.heads.clear(), s.hidden = {100}; }),
              HasSubstr("--hidden 100 is not a multiple of --head-dim 64"));
  EXPECT_THAT(fault_of([](GridSpec& s) { s.kv_heads = {3}; }),
              HasSubstr("heads 4 is not a multiple of kv-heads 3"));
}

TEST(Grid, SizesBeyond64Bits) {
  EXPECT_THAT(fault_of([](GridSpec& s) { s.n = {std::int64_t{1} << 40}; }), HasSubstr("too large"));
}

TEST(Grid, TooManyProblems) {
  EXPECT_THAT(fault_of([](GridSpec& s) {
                s.n.clear();
                for (std::int64_t i = 1; i <= 1000; ++i) s.n_q.push_back(i), s.n_kv.push_back(i);
              }),
              HasSubstr("more than 100000 problems"));
}

}  // namespace
}  // namespace flashbench
