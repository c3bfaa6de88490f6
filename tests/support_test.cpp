#include "support.h"

#include <gmock/gmock.h>

#include "fakes.h"

namespace flashbench {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Values = std::vector<std::int64_t>;

FakeImplementation fake() {
  return {"fake", Kind::fused, plain_attention_into};
}

TEST(Values, InFewWords) {
  EXPECT_EQ(describe_values(Values{}), "none");
  EXPECT_EQ(describe_values(Values{64}), "64");
  EXPECT_EQ(describe_values(Values{64, 128, 256}), "64, 128, 256");
  EXPECT_EQ(describe_values(Values{32, 64, 96, 128}), "32 to 128 in steps of 32");
  EXPECT_EQ(describe_values(Values{1, 2, 3, 4, 5}), "1 to 5");
  EXPECT_EQ(describe_values(Values{32, 64, 128, 256}), "32, 64, 128, 256");
}

TEST(Support, Everything) {
  EXPECT_THAT(describe_support(fake(), DeviceInfo{}), ElementsAre("f32, f16, bf16: any head dim"));
}

TEST(Support, Nothing) {
  FakeImplementation none = fake();
  none.unsupported_fn = [](const Problem&) { return std::optional<std::string>("never"); };
  EXPECT_THAT(describe_support(none, DeviceInfo{}), IsEmpty());
}

TEST(Support, DtypesWithTheSameHeadDimsShareALine) {
  FakeImplementation half = fake();
  half.unsupported_fn = [](const Problem& problem) -> std::optional<std::string> {
    const std::int64_t step = problem.dtype == Dtype::f32 ? 64 : 8;
    if (problem.head_dim % step != 0 || problem.head_dim > 256) return "head dim";
    return std::nullopt;
  };
  EXPECT_THAT(describe_support(half, DeviceInfo{}),
              ElementsAre("f32: head dim 64 to 256 in steps of 64",
                          "f16, bf16: head dim 8 to 256 in steps of 8"));
}

TEST(Support, WhatIsRefused) {
  FakeImplementation square = fake();
  square.unsupported_fn = [](const Problem& problem) -> std::optional<std::string> {
    if (problem.mask == Mask::causal) return "no masks here";
    if (problem.kv_heads != problem.heads) return "plain heads only";
    if (problem.n_q != problem.n_kv) return "square only";
    if (problem.n_q % 64 != 0) return "whole tiles only";
    return std::nullopt;
  };
  EXPECT_THAT(
      describe_support(square, DeviceInfo{}),
      ElementsAre("f32, f16, bf16: any head dim", "no causal mask: no masks here",
                  "no grouped heads: plain heads only", "no n_q other than n_kv: square only",
                  "no lengths that are no multiple of a tile: whole tiles only"));
}

}  // namespace
}  // namespace flashbench
