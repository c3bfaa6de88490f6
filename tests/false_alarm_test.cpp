#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>

#include "backend.h"
#include "input_values.h"
#include "reference/mutants.h"
#include "verify.h"

// Right implementations on random problems: the verdict must be exact on every one. By default a
// share of the cells that fits a test run; FLASHBENCH_CELLS=10000 runs as many, as scripts/test
// does.

namespace flashbench {
namespace {

/// Numbers drawn one after the other from a seed.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : seed_(seed) {}
  std::int64_t below(std::int64_t count) {
    const std::uint64_t bits = random_bits(seed_, 0, next_++);
    return static_cast<std::int64_t>((bits >> 1U) % static_cast<std::uint64_t>(count));
  }
  /// Between 1 and `most`, small numbers as likely as large ones.
  std::int64_t size(std::int64_t most) { return 1 + below(1 + below(most)); }

 private:
  std::uint64_t seed_;
  std::uint64_t next_ = 0;
};

VerifyCase random_case(std::uint64_t seed) {
  Draws draws(seed);
  VerifyCase one;
  Problem& problem = one.problem;
  problem.dtype =
      std::array{Dtype::f32, Dtype::f16, Dtype::bf16}[static_cast<std::size_t>(draws.below(3))];
  problem.mask = draws.below(2) == 0 ? Mask::none : Mask::causal;
  problem.batch = draws.size(3);
  problem.kv_heads = draws.size(3);
  problem.heads = problem.kv_heads * draws.size(3);
  problem.n_q = draws.size(250);
  problem.n_kv = draws.below(4) == 0 ? problem.n_q : draws.size(draws.below(20) == 0 ? 5000 : 400);
  problem.head_dim = draws.below(3) == 0 ? 64 : draws.size(160);
  problem.scale = default_scale(problem.head_dim) * (draws.below(4) == 0 ? 0.5 : 1.0);
  const auto all = distributions();
  // Half of the cells on data where the noise is part of the verdict.
  const bool normal = draws.below(2) == 0;
  one.inputs.distribution =
      normal ? std::array{Distribution::normal, Distribution::uniform,
                          Distribution::outlier}[static_cast<std::size_t>(draws.below(3))]
             : all[static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(all.size())))];
  one.inputs.seed = seed;
  one.name = std::string(to_string(one.inputs.distribution)) + " " + problem.to_string() +
             " seed " + std::to_string(seed);
  return one;
}

TEST(FalseAlarms, RightImplementationsAreExactOnRandomProblems) {
  const char* wanted = std::getenv("FLASHBENCH_CELLS");  // NOLINT(concurrency-mt-unsafe)
  const std::int64_t cells = wanted != nullptr ? std::strtoll(wanted, nullptr, 10) : 300;
  Backend backend = make_cpu_backend();
  backend.catalogue.push_back(make_plain_tiled());
  std::vector<const Implementation*> implementations;
  for (const auto& implementation : backend.catalogue) {
    if (implementation->kind() != Kind::approximate)
      implementations.push_back(implementation.get());
  }
  std::int64_t judged = 0;
  std::map<std::string, std::vector<double>> bounds;
  std::map<std::string, std::vector<double>> noises;
  for (std::uint64_t seed = 1; judged < cells; ++seed) {
    const VerifyCase one = random_case(seed);
    const std::vector<CaseOutcome> outcomes = judge_case(backend, implementations, one);
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      const CaseOutcome& outcome = outcomes[i];
      const std::string name(implementations[i]->name());
      if (outcome.status == Status::unsupported) continue;
      EXPECT_EQ(outcome.status, Status::ok)
          << name << " on " << one.name << ": " << outcome.reason.value_or("");
      ++judged;
      if (!outcome.exactness) continue;
      bounds[name].push_back(outcome.exactness->bound_ratio);
      if (outcome.exactness->row_noise) {
        noises[name].push_back(*outcome.exactness->row_noise / *outcome.exactness->row_noise_limit);
      }
    }
    ASSERT_LT(seed, static_cast<std::uint64_t>(cells) + 100);
  }
  for (auto& [name, figures] : bounds) {
    std::ranges::sort(figures);
    std::vector<double>& noise = noises[name];
    std::ranges::sort(noise);
    std::cout << name << ": " << figures.size() << " cells, bound_ratio median "
              << figures[figures.size() / 2] << " largest " << figures.back()
              << ", row_noise / limit median " << noise[noise.size() / 2] << " largest "
              << noise.back() << '\n';
  }
}

}  // namespace
}  // namespace flashbench
