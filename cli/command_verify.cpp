#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "admission.h"
#include "command_self_test.h"
#include "commands.h"
#include "device_choice.h"
#include "device_text.h"
#include "document.h"
#include "error.h"
#include "interrupt.h"
#include "progress.h"
#include "terminal.h"
#include "utc.h"
#include "verdict_table.h"
#include "verify_suite.h"

namespace flashbench {
namespace {

constexpr int kFailed = 3;
constexpr std::size_t kFailuresShown = 20;

/// Every implementation of the catalogue, or those that --impl names: names, kinds, all.
std::vector<const Implementation*> chosen(const std::vector<std::string>& names,
                                          const Backend& backend) {
  check_implementation_names(names, backend.catalogue);
  std::vector<const Implementation*> implementations;
  for (const auto& implementation : backend.catalogue) {
    const auto named = [&](std::string_view name) {
      return name == "all" || name == implementation->name() ||
             name == to_string(implementation->kind());
    };
    if (!names.empty() && std::none_of(names.begin(), names.end(), named)) continue;
    if (names.empty() && implementation->unavailable(backend.device->info())) continue;
    implementations.push_back(implementation.get());
  }
  return implementations;
}

class VerifyView : public VerifyObserver {
 public:
  VerifyView(const VerdictTable& table, std::FILE* out, const std::vector<VerifyCase>& cases)
      : table_(table), out_(out), progress_(stderr, is_terminal(stderr), problems_of(cases)) {}

  void started(const VerifyCase& verify_case, std::size_t index, std::size_t total) override {
    progress_.begin_problem(verify_case.problem, index, total);
  }
  void finished(const Verification& verification) override {
    progress_.end_problem();
    fmt::print(out_, "{}", table_.row(verification.cases.back()));
    std::fflush(out_);
  }

 private:
  static std::vector<Problem> problems_of(const std::vector<VerifyCase>& cases) {
    std::vector<Problem> problems;
    for (const VerifyCase& one : cases) problems.push_back(one.problem);
    return problems;
  }

  const VerdictTable& table_;
  std::FILE* out_;
  Progress progress_;
};

}  // namespace

int run(const VerifyOptions& options) {
  if (options.self_test) return run_self_test(options);
  Backend backend = open_backend(options.device);
  const std::vector<const Implementation*> implementations =
      chosen(options.implementations, backend);
  const DeviceInfo& device = backend.device->info();
  const std::vector<VerifyCase> cases =
      verify_suite(device.kind, {.seed = options.seed, .thorough = options.thorough});

  Verification verification;
  verification.command = options.command;
  verification.started_utc = utc_now();
  verification.thorough = options.thorough;
  verification.seed = options.seed;
  verification.device = device;
  for (const Implementation* implementation : implementations) {
    verification.implementations.push_back(
        {std::string(implementation->name()), implementation->kind()});
  }

  Document document(options.json);
  document.begin(to_document(verification));
  std::FILE* out = document.text_stream();
  const VerdictTable table(verification.implementations, cases, style_of(out));
  fmt::print(out,
             "{}, seed {}\nexact outputs are shown with their largest error over its bound\n\n{}",
             describe(device), options.seed, table.heading());
  VerifyView view(table, out, cases);
  verify(backend, implementations, cases, verification, view, catch_interrupts());

  document.finish(to_document(verification));
  const std::string wrong = failures(verification, kFailuresShown);
  fmt::print(out, "\n{}{}{}", wrong, wrong.empty() ? "" : "\n", summary(verification));
  const int code = exit_code(verification);
  return code == 0 && document.lost() ? kFailed : code;
}

}  // namespace flashbench
