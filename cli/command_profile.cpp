#include <fmt/format.h>

#include "admission.h"
#include "annotate.h"
#include "arena.h"
#include "commands.h"
#include "device_choice.h"
#include "error.h"
#include "units.h"
#include "workbench.h"

namespace flashbench {
namespace {

Problem only_problem(GridSpec grid) {
  if (grid.n.empty() && grid.n_q.empty() && grid.n_kv.empty()) {
    throw UsageError("profile needs --n, or --n-q and --n-kv");
  }
  if (grid.heads.empty() && grid.hidden.empty()) grid.heads = {16};
  if (grid.head_dim.empty()) grid.head_dim = {128};
  if (grid.dtype.empty()) grid.dtype = {Dtype::bf16};
  if (grid.mask.empty()) grid.mask = {Mask::none};
  const std::vector<Problem> problems = make_grid(grid);
  if (problems.size() != 1) {
    throw UsageError(fmt::format("profile takes one problem; the axes give {}", problems.size()));
  }
  return problems.front();
}

const Implementation& only_implementation(const ProfileOptions& options, const Problem& problem,
                                          const Backend& backend) {
  const std::vector<std::string> names =
      options.implementations.empty() ? std::vector<std::string>{"fused"} : options.implementations;
  check_implementation_names(names, backend.catalogue);
  const auto chosen =
      resolve_implementations(names, backend.catalogue, problem, backend.device->info());
  if (chosen.size() != 1) {
    throw UsageError(
        fmt::format("profile takes one implementation; --impl gives {}", chosen.size()));
  }
  if (const auto reason = chosen.front()->unsupported(problem, backend.device->info())) {
    throw Error(fmt::format("{} does not support {}: {}", chosen.front()->name(),
                            problem.to_string(), *reason));
  }
  return *chosen.front();
}

/// `word` as a POSIX shell reads it back.
std::string shell_quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text;
  for (const char c : word) {
    if (c == '\'') {
      text += "'\\''";
    } else {
      text += c;
    }
  }
  return fmt::format("'{}'", text);
}

void show_profiler_commands(const ProfileOptions& options, const Plan& plan) {
  std::string command;
  for (const std::string& word : options.command) command += " " + shell_quoted(word);
  fmt::print("\nEvery launch inside the marks, kernel by kernel:\n");
  fmt::print("  ncu --profile-from-start off --set full -o profile{}\n", command);
  fmt::print("One step, by its NVTX range:\n");
  for (const Step& step : plan.steps) {
    fmt::print("  ncu --nvtx --nvtx-include {} --profile-from-start off --set full -o profile{}\n",
               shell_quoted(fmt::format("flashbench@{}]", step.name)), command);
  }
  fmt::print("The timeline:\n");
  fmt::print("  nsys profile --capture-range cudaProfilerApi --trace cuda,nvtx -o profile{}\n",
             command);
}

}  // namespace

int run(const ProfileOptions& options) {
  Backend backend = open_backend(options.device);
  Device& device = *backend.device;
  const Problem problem = only_problem(options.grid);
  const Implementation& implementation = only_implementation(options, problem, backend);

  Arena arena(device);
  Workbench bench(arena, device, problem, 1,
                  implementation.workspace_bytes(problem, device.info()));
  backend.oracle->generate(problem, {.seed = options.seed}, bench.operands(0));
  const Plan plan = implementation.plan(problem, bench.operands(0), bench.workspace(), device);
  plan.enqueue(device.stream());  // loads modules and touches memory, outside the marks
  device.synchronize();

  device.profiler_start();
  {
    const Range cell(implementation.name(), problem);
    for (std::int64_t launch = 0; launch < options.launches; ++launch) {
      if (options.cache == CacheState::cold) {
        const Range phase("flush");
        device.flush_cache();
      }
      const Range phase("launch");
      enqueue_annotated(plan, device.stream());
    }
  }
  device.synchronize();
  device.profiler_stop();

  if (device.info().kind == DeviceKind::cuda) show_profiler_commands(options, plan);
  fmt::print("{}{} of {} on {}, {}, between profiler marks\n",
             device.info().kind == DeviceKind::cuda ? "\n" : "",
             options.launches == 1 ? "1 launch" : fmt::format("{} launches", options.launches),
             implementation.name(), problem.to_string(), device.info().name);
  return 0;
}

}  // namespace flashbench
