#include "command_self_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "device_choice.h"
#include "document.h"
#include "error.h"
#include "progress.h"
#include "reference/mutants.h"
#include "self_test_report.h"
#include "terminal.h"
#include "units.h"
#include "utc.h"
#include "verify_suite.h"

namespace flashbench {
namespace {

constexpr int kNotPassed = 1;
constexpr int kFailed = 3;

/// "0.30 0.85 12.4": least, median and largest.
std::string quantiles(const std::vector<double>& ascending) {
  if (ascending.empty()) return "-";
  const auto figure = [](double value) {
    if (std::isnan(value)) return std::string("NaN");
    return std::isinf(value) ? std::string("inf") : fmt::format("{:.2g}", value);
  };
  return fmt::format("{} / {} / {}", figure(ascending.front()),
                     figure(ascending[ascending.size() / 2]), figure(ascending.back()));
}

std::string first_killer(const SelfTestRow& row, const std::vector<std::string>& cases) {
  const auto wrong = std::find(row.outcomes.begin(), row.outcomes.end(), Status::wrong);
  return wrong == row.outcomes.end()
             ? ""
             : cases.at(static_cast<std::size_t>(wrong - row.outcomes.begin()));
}

void show(std::FILE* out, const std::vector<SelfTestRow>& rows,
          const std::vector<std::string>& cases, bool mutants) {
  const Style style = style_of(out);
  std::size_t width = 0;
  for (const SelfTestRow& row : rows) width = std::max(width, row.name.size());
  for (const SelfTestRow& row : rows) {
    const auto judged = std::count_if(row.outcomes.begin(), row.outcomes.end(), [](Status status) {
      return status == Status::ok || status == Status::wrong;
    });
    const std::string tally = fmt::format("{} of {}", row.wrong_cases(), judged);
    const bool good = row.killed() == mutants;
    std::string line = fmt::format("{:<{}}  {:>11}  {:<26}  {:<26}  {}", row.name, width, tally,
                                   quantiles(row.figures.bound_ratios),
                                   quantiles(row.figures.noise_ratios), first_killer(row, cases));
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print(out, "{}\n", paint(line, good ? Ink::plain : Ink::red, style));
  }
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

int run_self_test(const VerifyOptions& options) {
  if (options.device == DeviceChoice::cuda) {
    throw UsageError("--self-test runs on the CPU, where the mutants are; leave out --device cuda");
  }
  Backend backend = open_backend(DeviceChoice::cpu);
  const Catalogue mutants = mutant_catalogue();
  const auto plain = make_plain_tiled();
  std::vector<const Implementation*> controls{plain.get()};
  for (const auto& implementation : backend.catalogue) {
    if (implementation->kind() != Kind::approximate) controls.push_back(implementation.get());
  }
  const std::vector<VerifyCase> cases =
      verify_suite(DeviceKind::cpu, {.seed = options.seed, .thorough = false});
  const SelfTestExtent extent =
      options.thorough ? SelfTestExtent::all_cases : SelfTestExtent::until_killed;

  const SelfTestSettings settings{options.command, utc_now(), options.seed, extent,
                                  backend.device->info()};
  Document document(options.json);
  std::FILE* out = document.text_stream();
  std::vector<Problem> problems;
  for (const VerifyCase& one : cases) problems.push_back(one.problem);
  Progress progress(stderr, is_terminal(stderr), problems);
  progress.begin_problem(problems.front(), 0, cases.size());
  const SelfTest result =
      self_test(backend, mutants, controls, cases, extent, [&](std::size_t done) {
        progress.end_problem();
        if (done < cases.size()) {
          progress.begin_problem(problems[done], done, cases.size());
        }
      });
  progress.clear();
  document.finish(to_document(result, settings));
  fmt::print(
      out,
      "Each line: cases that call it not exact, of those tried{};\n"
      "least / median / largest error over its bound; the same of row noise over its limit;\n"
      "the first case that called it not exact.\n\n",
      options.thorough ? "" : " (none after the first: --thorough tries all)");
  fmt::print(out, "Wrong on purpose\n");
  show(out, result.mutants, result.cases, true);
  fmt::print(out, "\nRight\n");
  show(out, result.controls, result.cases, false);

  if (!result.passed()) fmt::print(out, "\n");
  if (!result.survivors().empty()) fmt::print(out, "not caught: {}\n", join(result.survivors()));
  if (!result.false_alarms().empty()) {
    fmt::print(out, "right but called wrong: {}\n", join(result.false_alarms()));
  }
  fmt::print(
      out, "\n{} of {} mutants caught by {} cases, {} false alarms over {} right implementations\n",
      result.mutants.size() - result.survivors().size(), result.mutants.size(), result.cases.size(),
      result.false_alarms().size(), result.controls.size());
  if (document.lost()) return kFailed;
  return result.passed() ? 0 : kNotPassed;
}

}  // namespace flashbench
