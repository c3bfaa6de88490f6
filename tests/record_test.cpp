// Every run on record conforms to the schema, `flashbench list` knows its architecture, and its
// counters say what the documentation says of them.

#include <gmock/gmock.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "process.h"
#include "schema.h"

namespace flashbench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// The files of results/<device>/ that are runs.
std::vector<std::string> runs_on_record() {
  std::vector<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(FLASHBENCH_SOURCE_DIR "/results")) {
    if (entry.path().extension() != ".json") continue;
    const Json document = Json::parse(read_file(entry.path().string()), nullptr, false);
    if (document.is_object() && document.contains("schema_version") && document.contains("cells")) {
      paths.push_back(entry.path().string());
    }
  }
  return paths;
}

TEST(Record, RunsConformToTheSchema) {
  const std::vector<std::string> paths = runs_on_record();
  std::vector<std::string> documents;
  for (const std::string& path : paths) documents.push_back(read_file(path));
  const std::vector<std::string> violations = schema_violations(documents);
  for (std::size_t i = 0; i < paths.size(); ++i) EXPECT_EQ(violations[i], "") << paths[i];
}

TEST(Record, TheListOfArchitecturesIsThatOfTheRuns) {
  std::set<int> recorded;
  for (const std::string& path : runs_on_record()) {
    const Json capability = Json::parse(read_file(path))["device"]["compute_capability"];
    if (capability.is_number()) recorded.insert(capability.get<int>());
  }
  const std::string source = read_file(FLASHBENCH_SOURCE_DIR "/cli/command_list.cpp");
  const std::string marker = "kArchitecturesOnRecord{";
  const std::size_t start = source.find(marker);
  ASSERT_NE(start, std::string::npos);
  std::istringstream listed(source.substr(start + marker.size()));
  std::set<int> named;
  for (int capability = 0; listed >> capability;) {
    named.insert(capability);
    if (listed.peek() == ',') listed.ignore();
  }
  for (const int capability : recorded) EXPECT_TRUE(named.contains(capability)) << capability;
  if (recorded.empty()) GTEST_SKIP() << "no run of a GPU is on record in results/";
  EXPECT_EQ(named, recorded);
}

/// Calls `look` with each cell on record whose bytes were counted, and with what names it.
void for_each_counted(const std::function<void(const Json&, const std::string&)>& look) {
  int looked_at = 0;
  for (const std::string& path : runs_on_record()) {
    const Json run = Json::parse(read_file(path));
    for (const Json& cell : run["cells"]) {
      if (cell["hbm"]["measured"].is_null()) continue;
      ++looked_at;
      const Json& problem = cell["problem"];
      look(cell, path + ": " + cell["implementation"].get<std::string>() + " " + problem.dump());
    }
  }
  EXPECT_GT(looked_at, 0) << "no counted cell is on record";
}

double counted_bytes(const Json& cell) {
  const Json& measured = cell["hbm"]["measured"];
  return measured["read_bytes"].get<double>() + measured["write_bytes"].get<double>();
}

// Q, K and V must be read and O written; the eviction's own writes are known to its uncertainty.
TEST(Record, NoFewerBytesAreCountedThanThereMustBe) {
  for_each_counted([](const Json& cell, const std::string& name) {
    const double uncertainty = cell["hbm"]["measured"]["write_uncertainty_bytes"];
    EXPECT_GE(counted_bytes(cell) + uncertainty, cell["memory"]["operand_bytes"].get<double>())
        << name;
  });
}

// docs/measurement.md: beyond 16k cuBLAS reads its operands again, and up to a twentieth is not
// modelled.
TEST(Record, TheModelOfNaiveHolds) {
  for_each_counted([](const Json& cell, const std::string& name) {
    const std::int64_t n = cell["problem"]["n_kv"];
    if (cell["implementation"] != "naive" || n < 4096) return;
    EXPECT_NEAR(cell["hbm"]["measured"]["over_model"].get<double>(), 1, n <= 16384 ? 0.03 : 0.05)
        << name;
  });
}

// docs/measurement.md says where and why it does not: where a wave's set is close to what L2 keeps,
// and where waves drift apart.
TEST(Record, TheModelOfFusedKernelsHoldsButForAFewCells) {
  int judged = 0;
  std::vector<std::string> apart;
  for_each_counted([&](const Json& cell, const std::string& name) {
    if (cell["kind"] != "fused" || !cell["hbm"]["measured"]["over_model"].is_number()) return;
    if (cell["problem"]["n_kv"].get<std::int64_t>() < 2048) return;
    const double over_model = cell["hbm"]["measured"]["over_model"];
    ++judged;
    if (over_model < 0.9 || over_model > 1.1) apart.push_back(name);
    EXPECT_GT(over_model, 0.85) << name;
    EXPECT_LT(over_model, cell["problem"]["n_kv"].get<std::int64_t>() < 65536 ? 1.5 : 3.5) << name;
  });
  ASSERT_GT(judged, 50);
  EXPECT_LT(static_cast<double>(apart.size()), 0.2 * judged) << testing::PrintToString(apart);
}

TEST(Record, WithoutAMaskTheOperationsExecutedAreThoseOfTheAlgorithm) {
  for_each_counted([](const Json& cell, const std::string& name) {
    const Json& whole = cell["counters"]["whole"];
    const bool ours = cell["kind"] == "naive" || cell["kind"] == "fused";
    if (cell["problem"]["mask"] != "none" || cell["problem"]["dtype"] == "f32" || !ours) return;
    double operations = 0;
    for (const char* type : {"tensor_bf16_ops", "tensor_f16_ops"}) {
      if (whole[type].is_number()) operations += whole[type].get<double>();
    }
    EXPECT_NEAR(operations / cell["derived"]["flops"].get<double>(), 1, 0.01) << name;
  });
}

}  // namespace
}  // namespace flashbench
