#include "roofline.h"

#include <gmock/gmock.h>

#include "bound.h"
#include "sample_run.h"

namespace flashbench {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// Gives the cell's steps what derive_figures() would, from its model and the run's references.
void derive(Cell& cell, const References& references) {
  std::vector<StepBound> bounds;
  std::vector<double> seconds;
  for (StepResult& step : cell.steps) {
    StepWork work;
    work.seconds = *step.median_s;
    work.read_bytes = static_cast<double>(step.model->read_bytes);
    work.write_bytes = static_cast<double>(step.model->write_bytes);
    work.unit = step.model->unit;
    work.matrix_flops = step.model->matrix_flops;
    step.bound = bound_of_step(work, references, 1e-6);
    bounds.push_back(*step.bound);
    seconds.push_back(*step.median_s);
  }
  cell.bound = bound_of_plan(bounds, seconds, cell.time->median_s);
}

StepResult step_of(const std::string& name, double seconds, double bytes, double flops) {
  StepResult step;
  step.name = name;
  step.median_s = seconds;
  step.model = StepModel{name,  static_cast<std::int64_t>(bytes),
                         0,     flops > 0 ? MatrixUnit::tensor_bf16 : MatrixUnit::none,
                         flops, 0};
  return step;
}

/// At N = 4k and 8k: naive, whose first two steps are held by memory and whose last is not, and
/// fused, which reaches the matrix rate.
flashbench::Run two_lengths() {
  flashbench::Run run = sample_run();
  References references;
  references.rates[Reference::read] = {4e12, 4e12, 4e12, {}, {4e12}};
  references.rates[Reference::copy] = {4e12, 4e12, 4e12, {}, {4e12}};
  references.rates[Reference::matrix_bf16] = {8e14, 8e14, 8e14, {}, {8e14}};
  run.references = references;
  for (const std::int64_t n : {4096, 8192}) {
    const double flops = sample_problem(n).flops();
    Cell naive = ok_cell(sample_problem(n), "naive", Kind::naive, flops / 1e14);
    const double third = naive.time->median_s / 3;
    naive.steps = {step_of("QK", third, 0.5 * third * 4e12, flops / 2),
                   step_of("softmax", third, 0.95 * third * 4e12, 0),
                   step_of("PV", third, 0.1 * third * 4e12, 0.9 * third * 8e14)};
    derive(naive, references);
    run.cells.push_back(naive);
    Cell fused = ok_cell(sample_problem(n), "fused", Kind::fused, flops / 8e14);
    derive(fused, references);
    run.cells.push_back(fused);
  }
  return run;
}

std::string drawn(const flashbench::Run& run) {
  std::vector<Problem> problems;
  for (const Cell& cell : run.cells) problems.push_back(cell.problem);
  std::string text;
  for (const Section& section : split_sections(problems)) text += roofline(run, section, {});
  return text;
}

TEST(Roofline, MarkersRoofAndWords) {
  EXPECT_EQ("\n" + drawn(two_lengths()), R"(
Roofline, B1 H16 d128 bf16, bytes modelled
            |                     ........................#......#.......
            |                   ..                       +
            |                  ..
500 TFLOP/s +                 .
            |               ..
            |             ..
            |            .
            |          ..
            |        ..
200 TFLOP/s +      ..
            |     .     o
            |   ..
            | ..
100 TFLOP/s +.      *
            +--------------+-----------------------+---------------------
                          100                     1000  op/B
  * naive
  o naive: QK  as executed
  + naive: PV  as executed
  # fused
  . this run's references: 4.00 TB/s, 800 TFLOP/s
  naive at N = 8k, of the memory's roof: QK 50 %, softmax 95 %; of the matrix roof: PV 90 %
  fused at N = 8k, of the matrix roof: attention 100 %
)");
}

TEST(Roofline, CountedBytesAreNotSaidToBeModelled) {
  flashbench::Run run = two_lengths();
  EXPECT_THAT(drawn(run), HasSubstr("bytes modelled"));
  for (Cell& cell : run.cells) count(cell, 1e9, 1e9);
  EXPECT_THAT(drawn(run), HasSubstr("bytes counted"));
}

TEST(Roofline, BothRoofsOrNone) {
  flashbench::Run run = two_lengths();
  run.references.reset();
  EXPECT_THAT(drawn(run), IsEmpty());
  for (const Reference missing : {Reference::copy, Reference::matrix_bf16}) {
    run = two_lengths();
    run.references->rates.erase(missing);
    EXPECT_THAT(drawn(run), IsEmpty()) << to_string(missing);
  }
  run = two_lengths();
  run.references->rates.erase(Reference::read);
  EXPECT_THAT(drawn(run), HasSubstr("4.00 TB/s")) << "copy stands in";
}

TEST(Roofline, NothingWithoutBytesOrRates) {
  flashbench::Run run = two_lengths();
  for (Cell& cell : run.cells) {
    for (StepResult& step : cell.steps) step.model.reset();
  }
  EXPECT_THAT(drawn(run), IsEmpty());
  run = two_lengths();
  for (Cell& cell : run.cells) cell.status = Status::wrong;
  EXPECT_THAT(drawn(run), IsEmpty());
  run = two_lengths();
  for (Cell& cell : run.cells) cell.time->too_short = true;
  EXPECT_THAT(drawn(run), IsEmpty());
}

TEST(Roofline, WhatCannotBeTrueIsLeftOut) {
  flashbench::Run run = two_lengths();
  for (Cell& cell : run.cells) {
    if (cell.implementation == "fused") cell.steps[0].impossible = {"more than the device has"};
  }
  EXPECT_THAT(drawn(run), AllOf(HasSubstr("naive"), Not(HasSubstr("fused"))));
}

TEST(Roofline, NoWordsOfCellsWithoutABound) {
  flashbench::Run run = two_lengths();
  for (Cell& cell : run.cells) {
    cell.bound.reset();
    for (StepResult& step : cell.steps) step.bound.reset();
  }
  EXPECT_THAT(drawn(run), AllOf(HasSubstr("* naive"), HasSubstr("o fused"),
                                Not(HasSubstr("naive:")), Not(HasSubstr("at N"))));
}

}  // namespace
}  // namespace flashbench
