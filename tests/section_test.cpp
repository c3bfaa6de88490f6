#include "section.h"

#include <gmock/gmock.h>

#include "sample_run.h"

namespace flashbench {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> titles(const std::vector<Problem>& problems) {
  std::vector<std::string> out;
  for (const Section& section : split_sections(problems)) out.push_back(section.title);
  return out;
}

TEST(Sections, LengthsShareOne) {
  const auto sections = split_sections(
      std::vector<Problem>{sample_problem(512), sample_problem(1024), sample_problem(512)});
  ASSERT_EQ(sections.size(), 1U);
  EXPECT_EQ(sections[0].title, "B1 H16 d128 bf16");
  EXPECT_EQ(sections[0].problems.size(), 2U);
  EXPECT_FALSE(sections[0].batch_varies);
}

TEST(Sections, EverythingElseSplits) {
  Problem causal = sample_problem(512);
  causal.mask = Mask::causal;
  Problem grouped = sample_problem(512);
  grouped.kv_heads = 4;
  Problem wide = sample_problem(512);
  wide.head_dim = 256;
  Problem other = sample_problem(512);
  other.dtype = Dtype::f16;
  EXPECT_THAT(titles({sample_problem(512), causal, grouped, wide, other}),
              ElementsAre("B1 H16 d128 bf16", "B1 H16 d128 bf16 causal", "B1 H16/4 d128 bf16",
                          "B1 H16 d256 bf16", "B1 H16 d128 f16"));
}

TEST(Sections, ABatchThatFollowsFromTheLengthDoesNotSplit) {
  const auto sections = split_sections(
      std::vector<Problem>{sample_problem(512, 4), sample_problem(1024, 2), sample_problem(2048)});
  ASSERT_EQ(sections.size(), 1U);
  EXPECT_EQ(sections[0].title, "H16 d128 bf16");
  EXPECT_TRUE(sections[0].batch_varies);
}

TEST(Sections, ABatchOfItsOwnSplits) {
  EXPECT_THAT(titles({sample_problem(512, 1), sample_problem(1024, 1), sample_problem(512, 2),
                      sample_problem(1024, 2)}),
              ElementsAre("B1 H16 d128 bf16", "B2 H16 d128 bf16"));
}

TEST(Sections, LengthLabels) {
  Problem problem = sample_problem(4096);
  EXPECT_EQ(length_label(problem), "4k");
  problem.n_q = 1;
  EXPECT_EQ(length_label(problem), "1x4k");
}

}  // namespace
}  // namespace flashbench
