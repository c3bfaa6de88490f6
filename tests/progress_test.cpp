#include "progress.h"

#include <gmock/gmock.h>

#include "process.h"
#include "sample_run.h"

namespace flashbench {
namespace {

using ::testing::HasSubstr;

TEST(TimeLeft, UnknownBeforeTheFirst) {
  EXPECT_FALSE(time_left({}, {1e9}).has_value());
}

TEST(TimeLeft, AFixedCostAndARate) {
  // One second fixed; the largest took four more for 4e9 operations.
  const std::vector<Timing> finished{{1e6, 1.0}, {4e9, 5.0}};
  EXPECT_DOUBLE_EQ(*time_left(finished, {8e9, 1e9}), (1.0 + 8.0) + (1.0 + 1.0));
  EXPECT_DOUBLE_EQ(*time_left(finished, {}), 0.0);
}

TEST(TimeLeft, OneFinishedProblemIsAllFixedCost) {
  EXPECT_DOUBLE_EQ(*time_left({{1e6, 2.0}}, {1e6, 1e12}), 4.0);
}

TEST(Progress, ShowsCellAndProblemAndClearsItself) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("err");
  std::FILE* out = std::fopen(path.c_str(), "w");
  {
    Progress progress(out, true, {sample_problem(512), sample_problem(1024)});
    progress.begin_problem(sample_problem(512), 0, 4);
    progress.end_problem();
    progress.begin_problem(sample_problem(1024), 2, 4);
  }
  std::fclose(out);
  const std::string text = read_file(path);
  EXPECT_THAT(text, HasSubstr("cell 1 of 4: B1 H16 N512 d128 bf16\r\x1b[K"));
  EXPECT_THAT(text, HasSubstr("cell 3 of 4: B1 H16 N1024 d128 bf16, about 1 s left\r\x1b[K"));
}

TEST(Progress, SilentWithoutATerminal) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("err");
  std::FILE* out = std::fopen(path.c_str(), "w");
  {
    Progress progress(out, false, {sample_problem(512)});
    progress.begin_problem(sample_problem(512), 0, 1);
    progress.end_problem();
    progress.clear();
  }
  std::fclose(out);
  EXPECT_EQ(read_file(path), "");
}

}  // namespace
}  // namespace flashbench
