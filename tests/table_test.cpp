#include "table.h"

#include <gmock/gmock.h>

#include <sstream>
#include <string>

#include "sample_run.h"
#include "units.h"

namespace flashbench {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

Table table_for(const flashbench::Run& run, Style style = {}) {
  std::vector<Problem> problems;
  std::vector<std::string> names;
  for (const Cell& cell : run.cells) {
    problems.push_back(cell.problem);
    names.push_back(cell.implementation);
  }
  return {problems, names, style};
}

std::string rows_of(const flashbench::Run& run, Style style = {}) {
  Table table = table_for(run, style);
  std::string text;
  for (const Cell& cell : run.cells) text += table.row(cell);
  return text;
}

TEST(Table, AWholeSection) {
  flashbench::Run run = sample_run();
  run.cells.push_back(ok_cell(sample_problem(4096), "naive", Kind::naive, 1.234e-3));
  run.cells.push_back(ok_cell(sample_problem(4096), "fused-mma", Kind::fused, 4.5e-4));
  EXPECT_EQ(rows_of(run), R"(B1 H16 d128 bf16
 N  implementation        time   spread  speed-up  bound by   HBM bytes  workspace  peak memory  verdict
4k  naive              1.23 ms    ±1.0%     1.00x         -    ~577 MiB    512 MiB      576 MiB  exact, 256 of 65 536 rows
4k  fused-mma           450 us    ±1.0%     2.50x         -   ~65.0 MiB        0 B     64.0 MiB  exact, 256 of 65 536 rows
)");
}

TEST(Table, ColumnsKeepTheirPlaceWhateverTheOutcome) {
  const auto lines = lines_of(rows_of(run_of_everything()));
  const std::size_t verdict = display_width(lines[1]) - std::string("verdict").size();
  for (std::size_t i = 2; i < lines.size(); ++i) {
    // Two spaces before the verdict, and a figure that ends there.
    std::size_t column = 0;
    std::size_t byte = 0;
    for (; byte < lines[i].size() && column < verdict - 3; ++byte) {
      if ((static_cast<unsigned char>(lines[i][byte]) & 0xc0U) != 0x80U) ++column;
    }
    EXPECT_NE(lines[i][byte], ' ') << lines[i];
    EXPECT_EQ(lines[i].substr(byte + 1, 2), "  ") << lines[i];
    EXPECT_NE(lines[i][byte + 3], ' ') << lines[i];
  }
}

TEST(Table, OutcomesInWords) {
  const flashbench::Run run = run_of_everything();
  EXPECT_EQ(outcome(run.cells[0]), "exact, 256 of 65 536 rows");
  EXPECT_EQ(outcome(run.cells[2]), "unsupported: head dim 128 is odd");
  EXPECT_EQ(outcome(run.cells[3]), "out of memory: needs 512 GiB, 139 GiB free");
  EXPECT_EQ(outcome(run.cells[4]), "WRONG: an element is NaN");
  EXPECT_EQ(outcome(run.cells[5]), "FAILED: illegal address");
  EXPECT_EQ(outcome(run.cells[6]), "not run: interrupted");
  EXPECT_EQ(outcome(run.cells[7]), "not exact, 256 of 65 536 rows");
  Cell all = run.cells[0];
  all.exactness->rows_checked = all.exactness->rows_total;
  EXPECT_EQ(outcome(all), "exact");
}

TEST(Table, NoTimeBesideAWrongResult) {
  flashbench::Run run = sample_run();
  run.cells = {run_of_everything().cells[4]};
  const std::string row = lines_of(rows_of(run))[2];
  EXPECT_THAT(row, AllOf(Not(HasSubstr("ms")), Not(HasSubstr("x ")), HasSubstr("WRONG")));
}

TEST(Table, MarksHaveFootnotes) {
  flashbench::Run run = sample_run();
  Cell cell = ok_cell(sample_problem(512), "fused", Kind::fused, 3e-6);
  run.cells = {cell};
  Table plain = table_for(run);
  plain.row(cell);
  EXPECT_EQ(plain.footnotes(), "  ~ modelled, not counted\n");

  cell.time->too_short = true;
  cell.time->throttled = true;
  cell.time->device_state.emplace().throttle_reasons = {"power_cap"};
  cell.steps[0].impossible = {"too fast"};
  count(cell, 1e6, 1e6);
  Table marked = table_for(run);
  EXPECT_THAT(marked.row(cell), AllOf(HasSubstr(" 3.00 us*!? "), HasSubstr(" 1.91 MiB")));
  EXPECT_THAT(marked.footnotes(), AllOf(HasSubstr("* too short"), HasSubstr("maximum: power_cap\n"),
                                        HasSubstr("? more than"), Not(HasSubstr("~"))));
}

TEST(Table, BoundStandsWhereItIsKnown) {
  flashbench::Run run = sample_run();
  Cell cell = ok_cell(sample_problem(4096), "naive", Kind::naive, 1e-3);
  bind(cell, Bound::hbm);
  run.cells = {cell};
  EXPECT_THAT(rows_of(run), HasSubstr("1.00x       hbm"));
}

TEST(Table, SectionsHaveHeadings) {
  flashbench::Run run = sample_run();
  run.cells.push_back(ok_cell(sample_problem(512), "naive", Kind::naive, 1e-3));
  run.cells.push_back(ok_cell(sample_problem(1024), "naive", Kind::naive, 1e-3));
  Problem causal = sample_problem(512);
  causal.mask = Mask::causal;
  run.cells.push_back(ok_cell(causal, "naive", Kind::naive, 1e-3));
  const auto lines = lines_of(rows_of(run));
  ASSERT_EQ(lines.size(), 8U);
  EXPECT_EQ(lines[0], "B1 H16 d128 bf16");
  EXPECT_EQ(lines[4], "");
  EXPECT_EQ(lines[5], "B1 H16 d128 bf16 causal");
}

TEST(Table, ABatchThatVariesIsAColumn) {
  flashbench::Run run = sample_run();
  run.cells.push_back(ok_cell(sample_problem(512, 8), "naive", Kind::naive, 1e-3));
  run.cells.push_back(ok_cell(sample_problem(1024, 4), "naive", Kind::naive, 1e-3));
  const auto lines = lines_of(rows_of(run));
  EXPECT_THAT(lines[1], HasSubstr("  N   batch  implementation"));
  EXPECT_THAT(lines[2], HasSubstr("512       8  naive"));
  EXPECT_THAT(lines[3], HasSubstr(" 1k       4  naive"));
}

TEST(Table, ColourOnlyWhereAskedFor) {
  EXPECT_THAT(rows_of(run_of_everything()), Not(HasSubstr("\x1b")));
  Style colour;
  colour.colour = true;
  EXPECT_THAT(rows_of(run_of_everything(), colour),
              AllOf(HasSubstr("\x1b[32mexact, 256 of 65 536 rows\x1b[0m"),
                    HasSubstr("\x1b[31mWRONG: an element is NaN\x1b[0m")));
}

TEST(Table, Summaries) {
  flashbench::Run run = sample_run();
  EXPECT_EQ(summary(run), "0 cells: 0 exact");
  run.cells.push_back(ok_cell(sample_problem(512), "naive", Kind::naive, 1e-3));
  EXPECT_EQ(summary(run), "1 cell: 1 exact");
  run.cells.push_back(ok_cell(sample_problem(512), "fused", Kind::fused, 1e-3));
  EXPECT_THAT(summary(run), EndsWith("2 exact; fused is 2.50x as fast as naive"));
  run.cells.back().speedup_over_naive->ratio = 0.5;
  run.cells.push_back(ok_cell(sample_problem(1024), "fused", Kind::fused, 1e-3));
  EXPECT_THAT(summary(run), EndsWith("fused is 0.500x to 2.50x as fast as naive"));
  EXPECT_EQ(summary(run_of_everything()),
            "9 cells: 3 exact, 1 unsupported, 1 out of memory, 1 WRONG, 1 FAILED, 1 not run; fused "
            "is 2.50x as fast as naive");
  run.interrupted = true;
  EXPECT_THAT(summary(run), EndsWith("; interrupted"));
}

}  // namespace
}  // namespace flashbench
