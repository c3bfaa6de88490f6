// The real program: what it prints, where, and how it ends. Runs on the CPU everywhere.

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "dtype.h"
#include "npy.h"
#include "process.h"
#include "schema.h"

namespace flashbench {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

constexpr const char* kProgram = FLASHBENCH_PROGRAM;

std::vector<std::string> command(const std::vector<std::string>& arguments) {
  std::vector<std::string> argv{kProgram};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return argv;
}

Outcome flashbench(const std::vector<std::string>& arguments, const std::string& out = "") {
  return run_program(command(arguments), {}, out);
}

/// A sweep that is over in a moment.
std::vector<std::string> small_sweep(const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{
      "sweep",     "--device", "cpu",          "--n",  "64,96",   "--heads", "2",
      "--samples", "3",        "--time-limit", "0.05", "--cache", "warm",    "--no-references"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

Json valid_document(const std::string& text) {
  EXPECT_EQ(schema_violations(text), "");
  return Json::parse(text);
}

/// Waits until `condition` holds; false after half a minute.
template <typename Condition>
bool eventually(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < end) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

std::size_t cells_in(const std::string& path) {
  if (!std::filesystem::exists(path)) return 0;
  return Json::parse(read_file(path))["cells"].size();
}

TEST(Cli, HelpAndVersion) {
  const Outcome help = flashbench({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.err, IsEmpty());
  for (const char* name : {"sweep", "verify", "references", "list", "info", "profile"}) {
    EXPECT_THAT(help.out, HasSubstr(name));
    const Outcome one = flashbench({name, "--help"});
    EXPECT_EQ(one.code, 0);
    EXPECT_THAT(one.out, HasSubstr("--device"));
  }
  const Outcome version = flashbench({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.out, StartsWith("flashbench 0."));
  EXPECT_EQ(lines_of(version.out).size(), 1U);
}

struct BadInput {
  std::vector<std::string> arguments;
  std::string token;     ///< named in the message
  std::string accepted;  ///< what the message says may stand there
};

class BadInputTest : public ::testing::TestWithParam<BadInput> {};

TEST_P(BadInputTest, OneClearLineAndExitCode2) {
  const Outcome outcome = flashbench(GetParam().arguments);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_THAT(outcome.err, AllOf(StartsWith("flashbench: "), HasSubstr(GetParam().token),
                                 HasSubstr(GetParam().accepted), EndsWith("\n")));
  const auto lines = lines_of(outcome.err);
  // On a machine without a GPU, where the sweep would run is said first.
  EXPECT_LE(std::count_if(lines.begin(), lines.end(),
                          [](const std::string& line) {
                            return line.find("running on the CPU") == std::string::npos;
                          }),
            1)
      << outcome.err;
}

INSTANTIATE_TEST_SUITE_P(
    Cli, BadInputTest,
    ::testing::Values(
        BadInput{{}, "no command", "sweep"}, BadInput{{"swep"}, "'swep'", "did you mean 'sweep'"},
        BadInput{{"frobnicate"}, "'frobnicate'", "accepted: sweep"},
        BadInput{{"--frob"}, "'--frob'", "flashbench --help"},
        BadInput{{"sweep", "--headdim", "64"}, "'--headdim'", "did you mean '--head-dim'"},
        BadInput{{"sweep", "-z"}, "'-z'", "flashbench sweep --help"},
        BadInput{{"sweep", "stray"}, "'stray'", "takes options only"},
        BadInput{{"sweep", "list"}, "'list'", "takes options only"},
        BadInput{{"sweep", "--n"}, "--n", "512..64k"},
        BadInput{{"sweep", "--n", "--quick"}, "--n", "512..64k"},
        BadInput{{"sweep", "--n="}, "--n", "512..64k"},
        BadInput{{"sweep", "--n", ""}, "--n", "512..64k"},
        BadInput{{"sweep", "--n=", "512"}, "--n", "512..64k"},
        BadInput{{"sweep", "--n", "512", "--n", "1024"}, "--n", "once"},
        BadInput{{"sweep", "--quick=yes"}, "'yes'", "takes no value"},
        BadInput{{"sweep", "--n", "-5"}, "'-5'", "positive integers"},
        BadInput{{"sweep", "--n", "0"}, "'0'", "positive integers"},
        BadInput{{"sweep", "--n", "512x"}, "'512x'", "positive integers"},
        BadInput{{"sweep", "--n", "512,,1024"}, "''", "positive integers"},
        BadInput{{"sweep", "--n", "1024..512"}, "'1024..512'", "positive integers"},
        BadInput{{"sweep", "--n", "99999999999999999999"}, "'99999999999999999999'", "integers"},
        BadInput{{"sweep", "--head-dim", "sixty"}, "--head-dim: 'sixty'", "positive integers"},
        BadInput{{"sweep", "--dtype", "fp32"}, "--dtype: 'fp32'", "f32, f16, bf16"},
        BadInput{{"sweep", "--dtype", "f32,"}, "--dtype: ''", "f32, f16, bf16"},
        BadInput{{"sweep", "--mask", "Causal"}, "--mask: 'Causal'", "none, causal"},
        BadInput{{"sweep", "--device", "gpu"}, "--device: 'gpu'", "auto, cuda, cpu"},
        BadInput{{"sweep", "--cache", "hot"}, "--cache: 'hot'", "cold, warm"},
        BadInput{{"sweep", "--load", "peak"}, "--load: 'peak'", "burst, sustained"},
        BadInput{{"sweep", "--data", "gauss"}, "--data: 'gauss'", "normal"},
        BadInput{{"sweep", "--counters", "yes"}, "--counters: 'yes'", "auto, on, off"},
        BadInput{{"sweep", "--seed", "-1"}, "--seed: '-1'", "integer from 0"},
        BadInput{{"sweep", "--samples", "0"}, "--samples: '0'", "positive integer"},
        BadInput{{"sweep", "--time-limit", "nan"}, "--time-limit: 'nan'", "positive number"},
        BadInput{{"sweep", "--precision", "1%%"}, "--precision: '1%%'", "positive number"},
        BadInput{{"sweep", "--n", "8", "--n-q", "8"}, "--n and --n-q", "one of them"},
        BadInput{{"sweep", "--n-q", "8"}, "--n-q", "needs --n-kv"},
        BadInput{{"sweep", "--batch", "1", "--tokens", "1k"}, "--batch and --tokens", "one of"},
        BadInput{{"sweep", "--heads", "1", "--hidden", "64"}, "--heads and --hidden", "one of"},
        BadInput{{"sweep", "--hidden", "100"}, "--hidden 100", "multiple of --head-dim"},
        BadInput{{"sweep", "--heads", "4", "--kv-heads", "3"}, "kv-heads 3", "multiple"},
        BadInput{{"sweep", "--n", "9000000000000000000"}, "too large", "64 bits"},
        BadInput{{"sweep", "--device", "cpu", "--impl", "flashy"}, "flashy", "cpu-naive"},
        BadInput{{"sweep", "--impl", "naive,"}, "--impl: ''", "implementation names"},
        BadInput{{"verify", "--n", "8"}, "'--n'", "flashbench verify --help"},
        BadInput{{"verify", "--device", "cpu", "--impl", "flashy"}, "flashy", "cpu-naive"},
        BadInput{{"verify", "--self-test", "--device", "cuda"}, "--self-test", "leave out"},
        BadInput{{"check", "--q", "a", "--k", "b", "--v", "c"}, "--out", ".npy"},
        BadInput{{"run", "--out", "o"}, "--q", ".npy"},
        BadInput{{"check", "--q=a", "--k=b", "--v=c", "--out=d", "--layout=nbhd"}, "nbhd", "bnhd"},
        BadInput{{"check", "--q=a", "--k=b", "--v=c", "--out=d", "--scale=0"},
                 "--scale: '0'",
                 "positive"},
        BadInput{{"profile", "--device", "cpu"}, "--n", "needs"},
        BadInput{{"profile", "--device", "cpu", "--n", "8,16"}, "one problem", "2"},
        BadInput{{"profile", "--device", "cpu", "--n", "8", "--impl", "all"},
                 "one implementation",
                 "--impl"}));

TEST(Cli, ASweepWritesTableSummaryAndDocument) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("run.json");
  const Outcome outcome = flashbench(small_sweep({"-o", path, "--seed", "7"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("B1 H2 d64 f32\n"), HasSubstr("\n64  cpu-naive "),
                                 HasSubstr("\n64  cpu-fused "), HasSubstr("\n96  cpu-naive "),
                                 HasSubstr("\n96  cpu-fused "), HasSubstr("  exact\n"),
                                 HasSubstr("Peak memory against N"), HasSubstr("Time against N")));
  EXPECT_THAT(outcome.out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(lines_of(outcome.out).back(),
              AllOf(StartsWith("4 cells: 4 exact"), EndsWith("written to " + path)));

  const Json run = valid_document(read_file(path));
  EXPECT_EQ(run["seed"], 7);
  EXPECT_EQ(run["interrupted"], false);
  EXPECT_EQ(run["device"]["kind"], "cpu");
  EXPECT_EQ(run["command"][0], kProgram);
  ASSERT_EQ(run["cells"].size(), 4U);
  for (const Json& cell : run["cells"]) {
    EXPECT_EQ(cell["status"], "ok") << cell["reason"];
    EXPECT_EQ(cell["exactness"]["verdict"], "exact");
    EXPECT_GT(cell["time"]["median_s"], 0);
    EXPECT_LE(cell["time"]["samples_s"].size(), 3U);
    EXPECT_TRUE(cell["hbm"]["measured"].is_null());
    EXPECT_TRUE(cell["hbm"]["measured_reason"].is_string());
  }
  EXPECT_EQ(run["cells"][0]["implementation"], "cpu-naive");
}

TEST(Cli, WorkspaceGrowsAsTheyShould) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("run.json");
  const Outcome outcome =
      flashbench({"sweep", "--device", "cpu", "--n", "256..1k", "--heads", "2", "--samples", "3",
                  "--time-limit", "0.05", "--cache", "warm", "--no-references", "-o", path});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::map<std::string, std::vector<double>> workspace;
  const Json run = valid_document(read_file(path));
  for (const Json& cell : run["cells"]) {
    workspace[cell["implementation"]].push_back(cell["memory"]["workspace_bytes"]);
  }
  const auto exponent = [&](const std::string& name) {
    return std::log2(workspace.at(name).back() / workspace.at(name).front()) / 2;
  };
  EXPECT_NEAR(exponent("cpu-naive"), 2.0, 0.05);
  EXPECT_LE(exponent("cpu-fused"), 1.0);
}

TEST(Cli, EveryAxis) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("run.json");
  const Outcome outcome = flashbench({"sweep",
                                      "--device=cpu",
                                      "--n-q=1,3",
                                      "--n-kv",
                                      "40",
                                      "--head-dim",
                                      "8,40",
                                      "--dtype",
                                      "f16,bf16",
                                      "--mask",
                                      "none,causal",
                                      "--batch",
                                      "2",
                                      "--heads",
                                      "4",
                                      "--kv-heads",
                                      "4,1",
                                      "--impl",
                                      "fused",
                                      "--samples=1",
                                      "--cache",
                                      "warm",
                                      "--no-references",
                                      "--curves=off",
                                      "-o",
                                      path});
  EXPECT_EQ(outcome.code, 0) << outcome.err << outcome.out;
  const Json run = valid_document(read_file(path));
  EXPECT_EQ(run["cells"].size(), 2U * 2 * 2 * 2 * 2);
  EXPECT_THAT(outcome.out,
              AllOf(Not(HasSubstr("against N")), HasSubstr("B2 H4/1 d40 bf16 causal")));
}

TEST(Cli, TokensAndHidden) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("run.json");
  const Outcome outcome = flashbench(
      {"sweep", "--device",        "cpu", "--n",    "32,64", "--tokens",  "128", "--hidden",
       "64",    "--head-dim",      "32",  "--impl", "fused", "--samples", "1",   "--cache",
       "warm",  "--no-references", "-o",  path});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Json cells = valid_document(read_file(path))["cells"];
  EXPECT_EQ(cells[0]["problem"]["batch"], 4);
  EXPECT_EQ(cells[1]["problem"]["batch"], 2);
  EXPECT_EQ(cells[0]["problem"]["heads"], 2);
  EXPECT_THAT(outcome.out, HasSubstr("batch  implementation"));
}

TEST(Cli, TheSameSeedGivesTheSameInputs) {
  const TemporaryDirectory directory;
  std::vector<double> errors;
  for (const char* seed : {"5", "5", "6"}) {
    const std::string path = directory.file("run.json");
    ASSERT_EQ(flashbench(small_sweep({"--seed", seed, "-o", path})).code, 0);
    errors.push_back(Json::parse(read_file(path))["cells"][1]["exactness"]["rel_frobenius"]);
  }
  EXPECT_EQ(errors[0], errors[1]);
  EXPECT_NE(errors[0], errors[2]);
}

TEST(Cli, ADocumentOnStdoutIsAlone) {
  const Outcome outcome = flashbench(small_sweep({"-o", "-"}));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(valid_document(outcome.out)["cells"].size(), 4U);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("cpu-fused"), HasSubstr("4 cells: 4 exact")));
}

TEST(Cli, DevStdoutIsStdoutEvenAsAFile) {
  const Outcome outcome = flashbench(small_sweep({"-o", "/dev/stdout"}));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(valid_document(outcome.out)["cells"].size(), 4U);
  EXPECT_THAT(outcome.err, HasSubstr("4 cells: 4 exact"));
}

TEST(Cli, AFifoGetsTheDocumentOnce) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("fifo");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  auto reader = std::async(std::launch::async, [&] { return read_file(path); });
  const Outcome outcome = flashbench(small_sweep({"-o", path}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(valid_document(reader.get())["cells"].size(), 4U);
}

TEST(Cli, APathThatCannotBeWrittenCostsNoMeasurement) {
  const Outcome outcome = flashbench(small_sweep({"-o", "/no/such/place/run.json"}));
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.err,
            "flashbench: cannot write /no/such/place/run.json: No such file or directory\n");
  EXPECT_THAT(outcome.out, IsEmpty());
}

TEST(Cli, AFullDiskIsAFailure) {
  const Outcome document = flashbench(small_sweep({"-o", "/dev/full"}));
  EXPECT_EQ(document.code, 3);
  EXPECT_THAT(document.err, HasSubstr("cannot write /dev/full: No space left on device"));
  EXPECT_THAT(document.out, HasSubstr("4 cells: 4 exact"));
  const Outcome table = flashbench(small_sweep(), "/dev/full");
  EXPECT_EQ(table.code, 3);
  EXPECT_THAT(table.err, HasSubstr("No space left on device"));
}

TEST(Cli, WhatCannotFitIsPredictedAndNoFailure) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("run.json");
  const Outcome outcome =
      flashbench({"sweep", "--device", "cpu", "--n", "64,1M", "--heads", "8", "--impl", "naive",
                  "--samples", "1", "--cache", "warm", "--no-references", "-o", path});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Json cell = valid_document(read_file(path))["cells"][1];
  EXPECT_EQ(cell["status"], "out_of_memory");
  EXPECT_GT(cell["memory"]["needed_bytes"].get<std::int64_t>(), std::int64_t{32} << 40);
  EXPECT_GT(cell["memory"]["free_bytes"].get<std::int64_t>(), 0);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("out of memory"), HasSubstr("stopped fitting at N = 1M")));
}

/// A sweep that runs for minutes, each cell its own.
std::vector<std::string> long_sweep(const std::string& path) {
  return command({"sweep",    "--device",        "cpu",   "--n",
                  "64..8k+1", "--heads",         "1",     "--head-dim",
                  "8",        "--impl",          "fused", "--samples",
                  "2",        "--time-limit",    "0.02",  "--cache",
                  "warm",     "--no-references", "-o",    path});
}

TEST(Cli, AnInterruptFinishesTheFile) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("run.json");
  Child child(long_sweep(path));
  ASSERT_TRUE(eventually([&] { return cells_in(path) >= 3; }));
  ::kill(child.pid(), SIGINT);
  const Outcome outcome = child.wait();
  EXPECT_EQ(outcome.code, 130);
  EXPECT_THAT(outcome.err, HasSubstr("flashbench: interrupted"));
  const Json run = valid_document(read_file(path));
  EXPECT_EQ(run["interrupted"], true);
  EXPECT_GE(run["cells"].size(), 3U);
  EXPECT_LT(run["cells"].size(), 8000U);
  EXPECT_THAT(lines_of(outcome.out).back(), HasSubstr("interrupted"));
}

TEST(Cli, AKillAtAnyMomentLeavesAValidFile) {
  const TemporaryDirectory directory;
  std::vector<std::string> documents;
  for (int attempt = 0; attempt < 5; ++attempt) {
    const std::string path = directory.file("run" + std::to_string(attempt) + ".json");
    Child child(long_sweep(path));
    ASSERT_TRUE(eventually([&] { return cells_in(path) >= 2; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(7 * attempt));
    ::kill(child.pid(), SIGKILL);
    EXPECT_EQ(child.wait().code, 128 + SIGKILL);
    documents.push_back(read_file(path));
    const Json run = Json::parse(documents.back());
    EXPECT_GE(run["cells"].size(), 2U);
    EXPECT_EQ(run["interrupted"], false);
  }
  EXPECT_EQ(schema_violations(documents), std::vector<std::string>(documents.size()));
}

TEST(Cli, TheFileIsThereBeforeTheFirstCell) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("run.json");
  Child child(long_sweep(path));
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(path); }));
  EXPECT_EQ(Json::parse(read_file(path))["schema_version"], 1);
}

TEST(Cli, ASecondInterruptEndsAtOnce) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("run.json");
  // One cell that takes long: the first signal only asks.
  Child child(command({"sweep", "--device", "cpu", "--n", "4k", "--impl", "fused", "--samples",
                       "100000", "--time-limit", "600", "--precision", "0.000001", "--cache",
                       "warm", "--no-references", "-o", path}));
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(path); }));
  ::kill(child.pid(), SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ::kill(child.pid(), SIGINT);
  EXPECT_THAT(child.wait().code, ::testing::AnyOf(128 + SIGINT, 130));
}

TEST(Cli, VerifyShowsAMatrixOfVerdicts) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("verify.json");
  const Outcome outcome =
      flashbench({"verify", "--device", "cpu", "--impl", "naive", "--json", path});
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_THAT(outcome.out, AllOf(ContainsRegex("\ncase +cpu-naive\n"),
                                 ContainsRegex("\nnormal B2 [^\n]* bf16 causal +exact 0")));
  EXPECT_THAT(
      lines_of(outcome.out).back(),
      ContainsRegex("^[0-9]+ cases x 1 implementations: [0-9]+ exact, 0 not exact, 0 failed"));
  EXPECT_EQ(schema_violations(read_file(path), "verify"), "");
  EXPECT_GT(Json::parse(read_file(path))["cases"].size(), 100U);
}

TEST(Cli, TheSelfTestCatchesEveryMutant) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("self-test.json");
  const Outcome outcome = flashbench({"verify", "--self-test", "--json", path});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(ContainsRegex("\nlast-tile-dropped +1 of "),
                                 ContainsRegex("\ncpu-fused +0 of ")));
  EXPECT_THAT(lines_of(outcome.out).back(),
              ContainsRegex("^([0-9]+) of [0-9]+ mutants caught by .*, 0 false alarms over"));
  EXPECT_EQ(schema_violations(read_file(path), "self-test"), "");
  const Json document = Json::parse(read_file(path));
  EXPECT_TRUE(document["passed"]);
  for (const Json& mutant : document["mutants"]) {
    EXPECT_EQ(mutant["outcomes"].size(), document["cases"].size()) << mutant["name"];
    EXPECT_EQ(mutant["called_wrong"], 1) << mutant["name"];
  }
}

/// A small problem in files: Q [1, 20, 2, 16], K and V [1, 30, 1, 16].
std::vector<std::string> tensor_files(const TemporaryDirectory& directory) {
  const auto write = [&](const std::string& name, std::int64_t rows, std::int64_t heads) {
    NpyArray array;
    array.dtype = Dtype::f16;
    array.shape = {1, rows, heads, 16};
    array.data.resize(static_cast<std::size_t>(array.elements() * 2));
    for (std::int64_t i = 0; i < array.elements(); ++i) {
      store_element(array.data.data(), Dtype::f16, i,
                    std::sin(static_cast<float>((i + rows) * (i % 7 + 3))));
    }
    write_npy(directory.file(name), array);
  };
  write("q.npy", 20, 2);
  write("k.npy", 30, 1);
  write("v.npy", 30, 1);
  return {"--q", directory.file("q.npy"), "--k", directory.file("k.npy"),
          "--v", directory.file("v.npy")};
}

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b,
                                const std::vector<std::string>& c) {
  a.insert(a.end(), b.begin(), b.end());
  a.insert(a.end(), c.begin(), c.end());
  return a;
}

TEST(Cli, WhatRunSavesCheckCallsExact) {
  const TemporaryDirectory directory;
  const auto files = tensor_files(directory);
  const std::string out = directory.file("o.npy");
  const std::string lse = directory.file("l.npy");
  const std::string json = directory.file("check.json");
  const Outcome made = flashbench(
      joined({"run", "--device", "cpu"}, files, {"--mask", "causal", "--out", out, "--lse", lse}));
  ASSERT_EQ(made.code, 0) << made.err;
  const Outcome judged = flashbench(
      joined({"check"}, files, {"--mask", "causal", "--out", out, "--lse", lse, "--json", json}));
  EXPECT_EQ(judged.code, 0) << judged.out << judged.err;
  EXPECT_EQ(lines_of(judged.out).back(), out + " is exact");
  EXPECT_EQ(schema_violations(read_file(json), "check"), "");
}

TEST(Cli, CheckSaysWhatAWrongOutputLooksLike) {
  const TemporaryDirectory directory;
  const auto files = tensor_files(directory);
  const std::string out = directory.file("o.npy");
  ASSERT_EQ(
      flashbench(joined({"run", "--device", "cpu"}, files, {"--mask", "causal", "--out", out}))
          .code,
      0);
  const std::string json = directory.file("check.json");
  const Outcome judged = flashbench(joined({"check"}, files, {"--out", out, "--json", json}));
  EXPECT_EQ(judged.code, 1);
  EXPECT_THAT(judged.out, HasSubstr("looks like a causal mask was applied"));
  EXPECT_THAT(lines_of(judged.out).back(), StartsWith(out + " is not exact: "));
  EXPECT_EQ(schema_violations(read_file(json), "check"), "");
}

TEST(Cli, FilesThatDoNotGoTogether) {
  const TemporaryDirectory directory;
  tensor_files(directory);
  const std::string q = directory.file("q.npy");
  const std::string k = directory.file("k.npy");
  const Outcome rows = flashbench({"check", "--q", q, "--k", q, "--v", k, "--out", q});
  EXPECT_EQ(rows.code, 2);
  EXPECT_THAT(rows.err, AllOf(StartsWith("flashbench: "), HasSubstr("k.npy has 30 rows where")));
  const Outcome shape = flashbench({"check", "--q", q, "--k", k, "--v", k, "--out", k});
  EXPECT_EQ(shape.code, 2);
  EXPECT_THAT(shape.err, HasSubstr("has the shape"));
  const Outcome missing = flashbench({"run", "--q", "none.npy", "--k", k, "--v", k, "--out", q});
  EXPECT_EQ(missing.code, 3);
  EXPECT_THAT(missing.err, HasSubstr("none.npy: No such file or directory"));
  write_file(q, "not an array");
  EXPECT_EQ(flashbench({"check", "--q", q, "--k", k, "--v", k, "--out", q}).code, 2);
}

TEST(Cli, ReferencesAreMeasured) {
  const Outcome outcome = flashbench({"references", "--device", "cpu", "--dtype", "f32"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ContainsRegex("\ncopy +[0-9.]+ [GT]B/s"));
  EXPECT_THAT(lines_of(outcome.out).back(), StartsWith("copy "));
}

TEST(Cli, ListSaysWhatIsSupported) {
  const Outcome outcome = flashbench({"list", "--device", "cpu"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("cpu-naive (cpu, naive): "), HasSubstr("cpu-fused (cpu, fused): "),
                    HasSubstr("    f32, f16, bf16: any head dim\n")));
  EXPECT_THAT(lines_of(outcome.out).back(),
              ContainsRegex("^[0-9]+ implementations, [0-9]+ of them"));
}

TEST(Cli, InfoNamesDeviceAndBuild) {
  const Outcome outcome = flashbench({"info", "--device", "cpu"});
  EXPECT_EQ(outcome.code, 0);
  for (const char* name : {"commit", "build", "device", "memory", "threads", "NVTX", "counters"}) {
    EXPECT_THAT(outcome.out, ContainsRegex(std::string("(^|\n)") + name)) << name;
  }
  EXPECT_THAT(lines_of(outcome.out).back(), StartsWith("runs on "));
}

TEST(Cli, ProfileLaunchesOneProblem) {
  const Outcome outcome = flashbench({"profile", "--device", "cpu", "--n", "64", "--heads", "1",
                                      "--dtype", "f32", "--impl", "naive", "--launches", "3"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(lines_of(outcome.out).back(),
              StartsWith("3 launches of cpu-naive on B1 H1 N64 d128 f32"));
}

TEST(Cli, LocaleChangesNothing) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"list", "--device", "cpu"}, {"--help"}, {"sweep", "--n", "x"}}) {
    const Outcome plain = run_program(command(arguments), {"LC_ALL=C"});
    const Outcome german = run_program(command(arguments), {"LC_ALL=de_DE.UTF-8"});
    EXPECT_EQ(plain.out, german.out);
    EXPECT_EQ(plain.err, german.err);
  }
}

TEST(Cli, WhereItRunsIsSaidOnStderr) {
  const Outcome outcome = flashbench({"sweep", "--n", "32", "--heads", "1", "--dtype", "f32",
                                      "--head-dim", "64", "--samples", "1", "--impl", "fused",
                                      "--cache", "warm", "--no-references", "--curves", "off"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  if (outcome.out.find("sm_") == std::string::npos) {
    EXPECT_THAT(outcome.err, StartsWith("flashbench: running on the CPU: "));
    const Outcome cuda = flashbench({"sweep", "--device", "cuda"});
    EXPECT_EQ(cuda.code, 3);
    EXPECT_THAT(cuda.err, StartsWith("flashbench: "));
    EXPECT_THAT(cuda.out, IsEmpty());
  }
}

}  // namespace
}  // namespace flashbench
