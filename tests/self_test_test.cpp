#include "self_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "cpu_device.h"
#include "reference/mutants.h"
#include "reference/oracle.h"
#include "verify_suite.h"

namespace flashbench {
namespace {

using testing::IsEmpty;

Backend cpu_backend() {
  Backend backend;
  backend.device = std::make_unique<CpuDevice>("none");
  backend.oracle = make_cpu_oracle();
  return backend;
}

// The suite of `flashbench verify` must call every mutant wrong, and the same kernel without a
// fault exact on every case.
TEST(SelfTest, EveryMutantIsKilledAndTheRightKernelPasses) {
  Backend backend = cpu_backend();
  const Catalogue mutants = mutant_catalogue();
  EXPECT_GE(mutants.size(), 25U);
  const auto right = make_plain_tiled();
  const Implementation* controls[] = {right.get()};
  const std::vector<VerifyCase> cases = verify_suite(DeviceKind::cpu, {.seed = 1});
  std::size_t told = 0;
  const SelfTest result = self_test(backend, mutants, controls, cases, SelfTestExtent::until_killed,
                                    [&](std::size_t done) { told = done; });
  EXPECT_THAT(result.survivors(), IsEmpty());
  EXPECT_THAT(result.false_alarms(), IsEmpty()) << result.controls[0].first_reason.value_or("");
  EXPECT_TRUE(result.passed());
  EXPECT_EQ(told, cases.size());
  EXPECT_EQ(result.cases.size(), cases.size());
  for (const SelfTestRow& row : result.mutants) {
    EXPECT_EQ(row.outcomes.size(), cases.size());
    EXPECT_TRUE(row.first_reason.has_value()) << row.name;
  }
  // A bound that is never reached has no teeth.
  const CaseFigures& figures = result.controls[0].figures;
  EXPECT_EQ(figures.bound_ratios.size(), cases.size());
  EXPECT_GT(figures.bound_ratios[cases.size() / 2], 0.05);
  EXPECT_GT(figures.noise_ratios[figures.noise_ratios.size() / 2], 0.1);
}

TEST(SelfTest, AWrongControlIsAFalseAlarm) {
  Backend backend = cpu_backend();
  const Catalogue mutants = mutant_catalogue();
  const Implementation* controls[] = {mutants.front().get()};
  const std::vector<VerifyCase> cases = verify_suite(DeviceKind::cpu, {.seed = 1});
  const SelfTest result =
      self_test(backend, {}, controls, std::span(cases).first(1), SelfTestExtent::all_cases, {});
  EXPECT_THAT(result.false_alarms(), testing::ElementsAre(std::string(mutants.front()->name())));
  EXPECT_FALSE(result.passed());
}

TEST(VerifySuite, HasEveryDistributionAndDtypeUnderUniqueNames) {
  const std::vector<VerifyCase> cases = verify_suite(DeviceKind::cpu, {});
  std::set<std::string> names;
  std::set<std::pair<Distribution, Dtype>> seen;
  bool empty_rows = false;
  bool many_heads = false;
  for (const VerifyCase& one : cases) {
    names.insert(one.name);
    seen.insert({one.inputs.distribution, one.problem.dtype});
    EXPECT_NO_THROW(one.problem.validate()) << one.name;
    empty_rows = empty_rows || one.problem.visible_keys(0) == 0;
    many_heads = many_heads || one.problem.batch * one.problem.heads > 65535;
  }
  EXPECT_EQ(names.size(), cases.size());
  EXPECT_EQ(seen.size(), distributions().size() * 3);
  EXPECT_TRUE(empty_rows);
  EXPECT_TRUE(many_heads);
}

TEST(VerifySuite, SeedsRepeatAndSizesFollowTheDevice) {
  const auto seeds = [](const std::vector<VerifyCase>& cases) {
    std::vector<std::uint64_t> all;
    for (const VerifyCase& one : cases) all.push_back(one.inputs.seed);
    return all;
  };
  const std::vector<VerifyCase> once = verify_suite(DeviceKind::cpu, {.seed = 3});
  EXPECT_EQ(seeds(once), seeds(verify_suite(DeviceKind::cpu, {.seed = 3})));
  EXPECT_NE(seeds(once), seeds(verify_suite(DeviceKind::cpu, {.seed = 4})));
  EXPECT_GT(verify_suite(DeviceKind::cpu, {.thorough = true}).size(), 3 * once.size());
  bool beyond_32_bits = false;
  for (const VerifyCase& one : verify_suite(DeviceKind::cuda, {})) {
    beyond_32_bits = beyond_32_bits || one.problem.q_elements() > std::int64_t{1} << 31;
  }
  EXPECT_TRUE(beyond_32_bits);
}

}  // namespace
}  // namespace flashbench
