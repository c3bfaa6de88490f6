#include "report.h"

#include <gmock/gmock.h>

#include <limits>
#include <locale>
#include <string>

#include "sample_run.h"
#include "schema.h"

namespace flashbench {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::ordered_json;

Json document_of(const Run& run) {
  return Json::parse(to_document(run));
}

TEST(Report, EveryStatusConformsToTheSchema) {
  EXPECT_THAT(schema_violations(to_document(run_of_everything())), IsEmpty());
}

TEST(Report, EmptyRunsConformToTheSchema) {
  EXPECT_THAT(schema_violations(to_document(sample_run())), IsEmpty());
  flashbench::Run cpu = sample_run();
  cpu.device = DeviceInfo{};
  cpu.device.name = "a CPU";
  EXPECT_THAT(schema_violations(to_document(cpu)), IsEmpty());
}

TEST(Report, TheSchemaRefusesWhatItShould) {
  const Json good = document_of(run_of_everything());
  std::vector<std::string> names{"nothing"};
  std::vector<std::string> documents{good.dump()};
  const auto refused = [&](const std::string& what, const auto& change) {
    Json bad = good;
    change(bad);
    names.push_back(what);
    documents.push_back(bad.dump());
  };
  refused("an unknown member", [](Json& run) { run["extra"] = 1; });
  refused("an unknown member of a cell", [](Json& run) { run["cells"][0]["extra"] = 1; });
  refused("a missing member", [](Json& run) { run.erase("seed"); });
  refused("a missing member of a cell", [](Json& run) { run["cells"][0].erase("memory"); });
  refused("a fraction for a count", [](Json& run) { run["cells"][0]["problem"]["n_q"] = 1.5; });
  refused("a text for a number", [](Json& run) { run["seed"] = "1"; });
  refused("an unknown status", [](Json& run) { run["cells"][0]["status"] = "fine"; });
  refused("ok without a time", [](Json& run) { run["cells"][0]["time"] = nullptr; });
  refused("ok and not exact",
          [](Json& run) { run["cells"][0]["exactness"]["verdict"] = "not_exact"; });
  refused("a rate for a wrong result",
          [](Json& run) { run["cells"][4]["derived"]["tflops"] = 1.0; });
  refused("a failure without a reason", [](Json& run) { run["cells"][5]["reason"] = nullptr; });
  refused("a local time", [](Json& run) { run["started_utc"] = "2026-01-02 03:04"; });
  const std::vector<std::string> violations = schema_violations(documents);
  EXPECT_EQ(violations[0], "");
  for (std::size_t i = 1; i < violations.size(); ++i) {
    EXPECT_NE(violations[i], "") << names[i] << " was not refused";
    EXPECT_THAT(violations[i], Not(HasSubstr("no verdict"))) << names[i];
  }
}

TEST(Report, NamesOfTheDesign) {
  const Json run = document_of(run_of_everything());
  for (const char* name : {"schema_version", "tool", "command", "started_utc", "interrupted",
                           "seed", "device", "settings", "references", "cells"}) {
    EXPECT_TRUE(run.contains(name)) << name;
  }
  const Json& cell = run["cells"][0];
  for (const char* name : {"problem", "implementation", "status", "reason", "exactness", "time",
                           "hbm", "memory", "counters", "derived"}) {
    EXPECT_TRUE(cell.contains(name)) << name;
  }
}

TEST(Report, NoNumberIsNaNOrInfinite) {
  const std::string text = to_document(run_of_everything());
  EXPECT_THAT(text, Not(HasSubstr("nan")));
  EXPECT_THAT(text, Not(HasSubstr("inf,")));
  const Json exactness = document_of(run_of_everything())["cells"][4]["exactness"];
  EXPECT_TRUE(exactness["bound_ratio"].is_null());
  EXPECT_EQ(exactness["bound_ratio_reason"], "infinite");
  EXPECT_TRUE(exactness["max_abs"].is_null());
  EXPECT_EQ(exactness["max_abs_reason"], "NaN");
  EXPECT_EQ(exactness["worst"]["got_reason"], "minus infinite");
}

TEST(Report, IntegersStayExact) {
  flashbench::Run run = sample_run();
  run.settings.seed = std::numeric_limits<std::uint64_t>::max();
  Cell cell = ok_cell(sample_problem(1024), "naive", Kind::naive, 1e-3);
  cell.memory.needed_bytes = std::numeric_limits<std::int64_t>::max();
  cell.memory.free_bytes = (std::int64_t{1} << 53) + 1;
  run.cells = {cell};
  const std::string text = to_document(run);
  EXPECT_THAT(text, HasSubstr("\"seed\": 18446744073709551615"));
  EXPECT_THAT(text, HasSubstr("\"needed_bytes\":9223372036854775807"));
  EXPECT_THAT(text, HasSubstr("\"free_bytes\":9007199254740993"));
  EXPECT_THAT(schema_violations(text), IsEmpty());
  const Json json = document_of(run);
  EXPECT_TRUE(json["cells"][0]["derived"]["flops"].is_number_integer());
  EXPECT_EQ(json["cells"][0]["derived"]["flops"], 4LL * 16 * 128 * 1024 * 1024);
}

TEST(Report, TimesComeBackAsTheyWere) {
  flashbench::Run run = sample_run();
  Cell cell = ok_cell(sample_problem(1024), "naive", Kind::naive, 1e-3);
  cell.time->samples_s = {0.1, 1.0 / 3.0, 4.9e-324, 1.7976931348623157e308};
  run.cells = {cell};
  EXPECT_EQ(document_of(run)["cells"][0]["time"]["samples_s"].get<std::vector<double>>(),
            cell.time->samples_s);
}

/// A locale with a decimal comma and dots between thousands.
struct CommaLocale : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

TEST(Report, LocaleChangesNothing) {
  const std::string plain = to_document(run_of_everything());
  const std::locale before = std::locale::global(std::locale(std::locale(), new CommaLocale));
  const std::string with_commas = to_document(run_of_everything());
  std::locale::global(before);
  EXPECT_EQ(with_commas, plain);
}

TEST(Report, TextThatIsNotUtf8) {
  flashbench::Run run = sample_run();
  run.command = {"flashbench", "a\xff\"\n"};
  EXPECT_EQ(document_of(run)["command"][1], "a\xef\xbf\xbd\"\n");
  EXPECT_THAT(schema_violations(to_document(run)), IsEmpty());
}

TEST(Report, HbmPrefersTheCounters) {
  Cell cell = ok_cell(sample_problem(1024), "naive", Kind::naive, 1e-3);
  ASSERT_TRUE(hbm_bytes(cell).has_value());
  EXPECT_FALSE(hbm_bytes(cell)->measured);
  EXPECT_EQ(hbm_bytes(cell)->bytes, static_cast<double>(cell.memory.peak_bytes + (1 << 20)));
  count(cell, 100, 50);
  EXPECT_TRUE(hbm_bytes(cell)->measured);
  EXPECT_EQ(hbm_bytes(cell)->bytes, 150);
  const Json json = to_json(cell);
  EXPECT_EQ(json["derived"]["hbm_bytes_from"], "measured");
  EXPECT_EQ(json["derived"]["hbm_bytes_per_s"], 150 / 1e-3);
}

TEST(Report, MeasuredBytesOverModelled) {
  Cell cell = ok_cell(sample_problem(1024), "naive", Kind::naive, 1e-3);
  const double modelled = hbm_bytes(cell)->bytes;
  count(cell, modelled, modelled / 2);
  EXPECT_DOUBLE_EQ(to_json(cell)["hbm"]["measured"]["over_model"].get<double>(), 1.5);
  cell.steps[0].model.reset();
  EXPECT_TRUE(to_json(cell)["hbm"]["measured"]["over_model"].is_null());
}

TEST(Report, ExecutedOperationsAreTheCounters) {
  flashbench::Run run = sample_run();
  Cell cell = ok_cell(sample_problem(4096), "fused", Kind::fused, 1e-3);
  run.cells.push_back(cell);
  count(cell, 1e9, 1e9);
  cell.counters->whole.tensor_bf16_ops = 1.5 * cell.problem.flops();
  run.cells.push_back(cell);
  const Json cells = document_of(run)["cells"];
  EXPECT_TRUE(cells[0]["derived"]["executed"].is_null());
  const Json& executed = cells[1]["derived"]["executed"];
  EXPECT_EQ(executed["tensor_ops"], 1.5 * cell.problem.flops());
  EXPECT_EQ(executed["over_algorithmic"], 1.5);
  EXPECT_EQ(executed["over_unmasked"], 1.5);
  EXPECT_THAT(schema_violations(to_document(run)), IsEmpty());
}

TEST(Report, AStepWithoutAModelLeavesNone) {
  Cell cell = ok_cell(sample_problem(1024), "naive", Kind::naive, 1e-3);
  cell.steps.push_back(cell.steps[0]);
  cell.steps[1].model.reset();
  EXPECT_FALSE(hbm_bytes(cell).has_value());
  const Json hbm = to_json(cell)["hbm"];
  EXPECT_TRUE(hbm["model"].is_null());
  EXPECT_TRUE(hbm["model_reason"].is_string());
  EXPECT_TRUE(hbm["measured"].is_null());
  EXPECT_EQ(hbm["measured_reason"], "counters not built yet");
}

TEST(Report, StepsAddUp) {
  Cell cell = ok_cell(sample_problem(1024), "naive", Kind::naive, 1e-3);
  StepResult second = cell.steps[0];
  second.model->read_bytes = 7;
  second.model->write_bytes = 11;
  const std::int64_t read = cell.steps[0].model->read_bytes;
  cell.steps.push_back(second);
  const Json model = to_json(cell)["hbm"]["model"];
  EXPECT_EQ(model["read_bytes"], read + 7);
  EXPECT_EQ(model["write_bytes"], (1 << 20) + 11);
  EXPECT_EQ(model["steps"].size(), 2U);
}

TEST(Report, NoRateWithoutARightResult) {
  const Json cells = document_of(run_of_everything())["cells"];
  for (const Json& cell : cells) {
    const bool ok = cell["status"] == "ok" && cell["derived"]["invalid"].empty();
    EXPECT_EQ(cell["derived"]["tflops"].is_number(), ok) << cell["implementation"];
    EXPECT_EQ(cell["derived"]["hbm_bytes_per_s"].is_number(), ok) << cell["implementation"];
  }
}

TEST(Report, WhatCannotBeIsMarkedAndNotQuoted) {
  const Json cell = document_of(run_of_everything())["cells"].back();
  EXPECT_EQ(cell["derived"]["invalid"][0], "attention: 1e9 TFLOP/s is more than the device has");
  EXPECT_TRUE(cell["derived"]["tflops"].is_null());
}

TEST(Report, ReferencesByName) {
  const Json references = document_of(run_of_everything())["references"];
  EXPECT_EQ(references["rates"]["copy"]["rate"], 4.2e12);
  EXPECT_EQ(references["rates"]["copy"]["unit"], "bytes_per_s");
  EXPECT_EQ(references["rates"]["matrix_bf16"]["unit"], "flops_per_s");
}

TEST(Report, ALineForEachCell) {
  const std::string text = to_document(run_of_everything());
  const flashbench::Run run = run_of_everything();
  std::size_t lines = 0;
  for (std::size_t at = text.find("\n{\"problem\""); at != std::string::npos;
       at = text.find("\n{\"problem\"", at + 1)) {
    ++lines;
  }
  EXPECT_EQ(lines, run.cells.size());
  EXPECT_EQ(text.back(), '\n');
}

}  // namespace
}  // namespace flashbench
