// Every run on record conforms to the schema, and `flashbench list` knows its architecture.

#include <gmock/gmock.h>

#include <filesystem>
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

}  // namespace
}  // namespace flashbench
