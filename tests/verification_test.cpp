#include "verification.h"

#include <gmock/gmock.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "error.h"
#include "fakes.h"
#include "reference/oracle.h"
#include "schema.h"
#include "verdict_table.h"

namespace flashbench {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::json;

VerifyCase small_case(std::string name, std::int64_t n) {
  VerifyCase one;
  one.name = std::move(name);
  one.problem.heads = 2;
  one.problem.kv_heads = 2;
  one.problem.n_q = n;
  one.problem.n_kv = n;
  one.problem.head_dim = 16;
  one.problem.scale = 0.25;
  return one;
}

class Verifying : public ::testing::Test, public VerifyObserver {
 protected:
  Verifying() {
    auto device = std::make_unique<FakeDevice>();
    device_ = device.get();
    backend_.device = std::move(device);
    backend_.oracle = make_cpu_oracle();
    result_.command = {"flashbench", "verify"};
    result_.started_utc = "2026-01-02T03:04:05Z";
    result_.device = backend_.device->info();
  }

  void add(const std::string& name, Kind kind,
           std::function<void(const Problem&, const Operands&)> body) {
    backend_.catalogue.push_back(std::make_unique<FakeImplementation>(name, kind, std::move(body)));
    result_.implementations.push_back({name, kind});
  }
  void add_right() { add("right", Kind::naive, plain_attention_into); }
  void add_wrong(const std::string& name, Kind kind) {
    add(name, kind, [](const Problem& problem, const Operands& operands) {
      plain_attention_into(problem, operands);
      static_cast<float*>(operands.o.data)[5] += 1.0F;
    });
  }

  void run() {
    std::vector<const Implementation*> implementations;
    for (const auto& one : backend_.catalogue) implementations.push_back(one.get());
    const std::vector<VerifyCase> cases{small_case("first", 20), small_case("second", 33)};
    verify(backend_, implementations, cases, result_, *this, stop_);
  }
  void finished(const Verification&) override { ++finished_; }

  FakeDevice* device_;
  Backend backend_;
  Verification result_;
  std::atomic<bool> stop_{false};
  int finished_ = 0;
};

TEST_F(Verifying, RightImplementationsPass) {
  add_right();
  run();
  EXPECT_EQ(finished_, 2);
  EXPECT_EQ(result_.cases[0].outcomes[0].status, Status::ok);
  EXPECT_EQ(exit_code(result_), 0);
  EXPECT_THAT(failures(result_, 9), IsEmpty());
  EXPECT_THAT(summary(result_),
              EndsWith("2 cases x 1 implementations: 2 exact, 0 not exact, 0 failed\n"));
}

TEST_F(Verifying, AWrongOneIsFoundAndShown) {
  add_right();
  add_wrong("off", Kind::fused);
  run();
  EXPECT_EQ(result_.cases[1].outcomes[0].status, Status::ok);
  EXPECT_EQ(result_.cases[1].outcomes[1].status, Status::wrong);
  EXPECT_EQ(exit_code(result_), 1);
  EXPECT_THAT(failures(result_, 9),
              AllOf(HasSubstr("off on first: "), HasSubstr("off on second: "),
                    HasSubstr("batch 0, head 0, row 0, column 5: got "), Not(HasSubstr("right"))));
  EXPECT_THAT(failures(result_, 1), AllOf(HasSubstr("off on first"), EndsWith("and 1 more\n")));
}

TEST_F(Verifying, AnApproximationIsNoFailure) {
  add_wrong("window", Kind::approximate);
  run();
  EXPECT_EQ(result_.cases[0].outcomes[0].status, Status::wrong);
  EXPECT_EQ(exit_code(result_), 0);
  EXPECT_THAT(failures(result_, 9), IsEmpty());
  EXPECT_THAT(summary(result_), AllOf(HasSubstr("window: 0 exact, 2 not exact, as an"),
                                      HasSubstr("0 exact, 0 not exact, 0 failed")));
}

TEST_F(Verifying, ACrashIsAFailure) {
  add_right();
  add("crash", Kind::fused, [](const Problem&, const Operands&) { throw Error("boom"); });
  run();
  EXPECT_EQ(result_.cases[0].outcomes[0].status, Status::ok);
  EXPECT_EQ(result_.cases[0].outcomes[1].status, Status::failed);
  EXPECT_EQ(exit_code(result_), 3);
  EXPECT_THAT(failures(result_, 9), HasSubstr("crash on first: boom"));
}

TEST_F(Verifying, AfterALostDeviceNothingRuns) {
  add("lose", Kind::fused, [this](const Problem&, const Operands&) { device_->lose(); });
  run();
  EXPECT_EQ(result_.cases[0].outcomes[0].status, Status::failed);
  EXPECT_EQ(result_.cases[1].outcomes[0].status, Status::not_run);
  EXPECT_THAT(*result_.cases[1].outcomes[0].reason, HasSubstr("lost in first"));
  EXPECT_EQ(exit_code(result_), 3);
}

TEST_F(Verifying, StopsBetweenCases) {
  add("stopper", Kind::fused, [this](const Problem& problem, const Operands& operands) {
    plain_attention_into(problem, operands);
    stop_ = true;
  });
  run();
  EXPECT_EQ(result_.cases.size(), 1U);
  EXPECT_TRUE(result_.interrupted);
  EXPECT_EQ(exit_code(result_), 130);
}

TEST_F(Verifying, TheDocumentConformsToItsSchema) {
  add_right();
  add_wrong("off", Kind::fused);
  add("crash", Kind::fused, [](const Problem&, const Operands&) { throw Error("boom"); });
  run();
  const std::string text = to_document(result_);
  EXPECT_EQ(schema_violations(text, "verify"), "");
  const Json document = Json::parse(text);
  EXPECT_EQ(document["cases"][1]["outcomes"][1]["implementation"], "off");
  EXPECT_EQ(document["cases"][1]["outcomes"][1]["exactness"]["verdict"], "not_exact");
}

TEST_F(Verifying, TheMatrixInLines) {
  add_right();
  add_wrong("a-name-that-is-long", Kind::fused);
  run();
  const VerdictTable table(result_.implementations,
                           {small_case("first", 1), small_case("second", 1)}, {});
  EXPECT_EQ(table.heading(), "case    right             a-name-that-is-long\n");
  EXPECT_THAT(table.row(result_.cases[0]),
              ::testing::MatchesRegex("first   exact 0\\.[0-9]+       NOT EXACT [0-9.e+]+\n"));
  EXPECT_THAT(table.row(result_.cases[1]), ::testing::StartsWith("second  exact"));
}

}  // namespace
}  // namespace flashbench
