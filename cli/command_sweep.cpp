#include <fmt/format.h>

#include <algorithm>

#include "admission.h"
#include "axis.h"
#include "commands.h"
#include "device_choice.h"
#include "interrupt.h"
#include "sweep.h"
#include "sweep_view.h"
#include "utc.h"

namespace flashbench {
namespace {

constexpr int kFailed = 3;

/// What a plain `flashbench sweep` runs: enough to see naive stop fitting on a GPU, under a minute
/// on a small CPU.
struct Defaults {
  std::string_view lengths;
  std::string_view quick_lengths;
  std::int64_t heads;
  std::int64_t head_dim;
  Dtype dtype;
};
constexpr Defaults kCudaDefaults{"512..128k", "512..8k", 16, 128, Dtype::bf16};
constexpr Defaults kCpuDefaults{"256..4k", "256..1k", 8, 64, Dtype::f32};

constexpr double kTimeLimit = 1.0;
constexpr double kQuickTimeLimit = 0.2;

void complete(GridSpec& grid, DeviceKind device, bool quick) {
  const Defaults& defaults = device == DeviceKind::cuda ? kCudaDefaults : kCpuDefaults;
  if (grid.n.empty() && grid.n_q.empty() && grid.n_kv.empty()) {
    grid.n = parse_axis("--n", quick ? defaults.quick_lengths : defaults.lengths);
  }
  if (grid.heads.empty() && grid.hidden.empty()) grid.heads = {defaults.heads};
  if (grid.head_dim.empty()) grid.head_dim = {defaults.head_dim};
  if (grid.dtype.empty()) grid.dtype = {defaults.dtype};
  if (grid.mask.empty()) grid.mask = {Mask::none};
}

/// naive and fused, and as a yardstick the libraries that take any of the problems on this device.
std::vector<std::string> default_implementations(const std::vector<Problem>& problems,
                                                 const Backend& backend) {
  const DeviceInfo& device = backend.device->info();
  std::vector<std::string> names{"naive", "fused"};
  for (const auto& implementation : backend.catalogue) {
    if (implementation->kind() == Kind::library &&
        std::ranges::any_of(problems, [&](const Problem& problem) {
          return !implementation->unsupported(problem, device);
        })) {
      names.emplace_back(implementation->name());
    }
  }
  return names;
}

SweepRequest request_of(const SweepOptions& options, const Backend& backend) {
  SweepRequest request;
  GridSpec grid = options.grid;
  complete(grid, backend.device->info().kind, options.quick);
  request.problems = make_grid(grid);
  request.implementations = options.implementations;
  if (request.implementations.empty()) {
    request.implementations = default_implementations(request.problems, backend);
  }
  request.settings = options.settings;
  request.settings.references = !options.no_references;
  request.settings.time_limit_s =
      options.time_limit_s.value_or(options.quick ? kQuickTimeLimit : kTimeLimit);
  return request;
}

/// Every implementation that the request may run.
std::vector<std::string> names_of(const SweepRequest& request, const Backend& backend) {
  std::vector<std::string> names;
  for (const Problem& problem : request.problems) {
    for (const Implementation* implementation : resolve_implementations(
             request.implementations, backend.catalogue, problem, backend.device->info())) {
      const std::string name(implementation->name());
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

}  // namespace

int run(const SweepOptions& options) {
  Backend backend = open_backend(options.device);
  const SweepRequest request = request_of(options, backend);
  check_implementation_names(request.implementations, backend.catalogue);

  Run run;
  run.command = options.command;
  run.started_utc = utc_now();
  run.device = backend.device->info();
  run.settings = request.settings;

  SweepView view(request, names_of(request, backend), options.output, options.curves);
  sweep(backend, request, run, view, catch_interrupts());
  const int code = exit_code(run);
  return code == 0 && view.lost_document() ? kFailed : code;
}

int run(const TextOptions& options) {
  fmt::print("{}", options.text);
  return 0;
}

}  // namespace flashbench
