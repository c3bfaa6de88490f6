#include "admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "error.h"
#include "fakes.h"

namespace flashbench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

Problem problem_of(std::int64_t n) {
  return {.batch = 1, .heads = 1, .kv_heads = 1, .n_q = n, .n_kv = n, .head_dim = 64};
}

std::unique_ptr<FakeImplementation> fake(std::string name, Kind kind) {
  return std::make_unique<FakeImplementation>(std::move(name), kind, plain_attention_into);
}

class Admission : public testing::Test {
 protected:
  Admission() {
    backend_.device = std::make_unique<FakeDevice>(4 * kGiB);
    auto naive = fake("slow-naive", Kind::naive);
    naive->workspace_fn = [](const Problem& p) { return p.score_elements() * 4; };
    auto picky = fake("picky", Kind::fused);
    picky->unsupported_fn = [](const Problem& p) -> std::optional<std::string> {
      if (p.head_dim != 128) return "head dim 128 only";
      return std::nullopt;
    };
    backend_.catalogue.push_back(std::move(naive));
    backend_.catalogue.push_back(std::move(picky));
    backend_.catalogue.push_back(fake("general", Kind::fused));
    backend_.catalogue.push_back(fake("vendor", Kind::library));
  }

  std::vector<std::string> resolved(const std::vector<std::string>& names,
                                    const Problem& problem) const {
    std::vector<std::string> result;
    for (const Implementation* item :
         resolve_implementations(names, backend_.catalogue, problem, backend_.device->info())) {
      result.emplace_back(item->name());
    }
    return result;
  }

  Backend backend_;
};

TEST_F(Admission, KindMeansTheFirstThatSupportsTheProblem) {
  Problem problem = problem_of(8);
  EXPECT_THAT(resolved({"naive", "fused"}, problem), ElementsAre("slow-naive", "general"));
  problem.head_dim = 128;
  EXPECT_THAT(resolved({"fused"}, problem), ElementsAre("picky"));
}

TEST_F(Admission, AllIsTheCatalogueAndNothingRunsTwice) {
  EXPECT_THAT(resolved({"general", "all", "fused"}, problem_of(8)),
              ElementsAre("general", "slow-naive", "picky", "vendor"));
}

TEST_F(Admission, UnknownNameIsNamedWithWhatIsAccepted) {
  try {
    check_implementation_names({"fused", "fuzed"}, backend_.catalogue);
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'fuzed'"));
    EXPECT_THAT(error.what(), HasSubstr("all, naive, fused, slow-naive, picky, general, vendor"));
  }
}

TEST_F(Admission, UnsupportedKeepsItsReason) {
  const auto candidates = admit(problem_of(8), {"picky"}, backend_);
  ASSERT_EQ(candidates.size(), 1U);
  EXPECT_EQ(candidates[0].cell.status, Status::unsupported);
  EXPECT_EQ(candidates[0].cell.reason, "head dim 128 only");
}

TEST_F(Admission, WhatWouldNotFitIsPredictedWithBothNumbers) {
  const auto candidates = admit(problem_of(32768), {"naive", "fused"}, backend_);
  ASSERT_EQ(candidates.size(), 2U);
  const Cell& naive = candidates[0].cell;
  EXPECT_EQ(naive.status, Status::out_of_memory);
  EXPECT_EQ(naive.memory.workspace_bytes, 4 * kGiB);
  EXPECT_GT(naive.memory.needed_bytes, naive.memory.free_bytes);
  EXPECT_EQ(naive.memory.free_bytes, 4 * kGiB);
  EXPECT_THAT(*naive.reason, HasSubstr(std::to_string(naive.memory.needed_bytes)));
  EXPECT_EQ(candidates[1].cell.status, Status::not_run);
}

TEST_F(Admission, PeakIsOperandsPlusItsOwnWorkspace) {
  const auto candidates = admit(problem_of(1024), {"naive", "fused"}, backend_);
  EXPECT_EQ(candidates[0].cell.memory.peak_bytes, 4 * 1024 * 64 * 4 + 1024 * 1024 * 4);
  EXPECT_EQ(candidates[1].cell.memory.peak_bytes, 4 * 1024 * 64 * 4);
}

TEST(MemoryNeedTest, SharesOperandsAndTheLargestWorkspace) {
  FakeDevice device;
  auto small = fake("small", Kind::fused);
  small->workspace_fn = [](const Problem&) { return 10; };
  auto large = fake("large", Kind::naive);
  large->workspace_fn = [](const Problem&) { return 1000; };
  const Problem problem = problem_of(16);
  const std::int64_t tensor = std::int64_t{16} * 64 * 4;
  const MemoryNeed need = memory_need(problem, {small.get(), large.get()}, device.info());
  EXPECT_EQ(need.operands, 3 * tensor);
  EXPECT_EQ(need.outputs, 3 * tensor);
  EXPECT_EQ(need.workspace, 1000);
}

}  // namespace
}  // namespace flashbench
