#include "options.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

#include "arguments.h"
#include "axis.h"
#include "error.h"
#include "inputs.h"
#include "version.h"

namespace flashbench {
namespace {

template <typename T>
using Choices = std::vector<std::pair<std::string_view, T>>;

const Choices<Dtype>& dtypes() {
  static const Choices<Dtype> choices{
      {"f32", Dtype::f32}, {"f16", Dtype::f16}, {"bf16", Dtype::bf16}};
  return choices;
}
const Choices<Mask>& masks() {
  static const Choices<Mask> choices{{"none", Mask::none}, {"causal", Mask::causal}};
  return choices;
}
const Choices<DeviceChoice>& devices() {
  static const Choices<DeviceChoice> choices{
      {"auto", DeviceChoice::automatic}, {"cuda", DeviceChoice::cuda}, {"cpu", DeviceChoice::cpu}};
  return choices;
}
const Choices<CacheState>& cache_states() {
  static const Choices<CacheState> choices{{"cold", CacheState::cold}, {"warm", CacheState::warm}};
  return choices;
}
const Choices<Load>& loads() {
  static const Choices<Load> choices{{"burst", Load::burst}, {"sustained", Load::sustained}};
  return choices;
}
const Choices<CounterMode>& counter_modes() {
  static const Choices<CounterMode> choices{
      {"auto", CounterMode::automatic}, {"on", CounterMode::on}, {"off", CounterMode::off}};
  return choices;
}
const Choices<Distribution>& data() {
  static const Choices<Distribution> choices = [] {
    Choices<Distribution> all;
    for (const Distribution one : distributions()) all.emplace_back(to_string(one), one);
    return all;
  }();
  return choices;
}
const Choices<CurveChoice>& curve_choices() {
  static const Choices<CurveChoice> choices{{"auto", CurveChoice::automatic},
                                            {"braille", CurveChoice::braille},
                                            {"ascii", CurveChoice::ascii},
                                            {"off", CurveChoice::off}};
  return choices;
}

template <typename T>
std::string accepted(const Choices<T>& choices) {
  std::string text;
  for (const auto& [name, value] : choices) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

template <typename T>
T choose(std::string_view option, std::string_view token, const Choices<T>& choices) {
  for (const auto& [name, value] : choices) {
    if (name == token) return value;
  }
  throw UsageError(
      fmt::format("{}: {} is unknown; accepted: {}", option, in_quotes(token), accepted(choices)));
}

/// Declares options whose text goes through one of axis.h's parsers or a list of choices.
class Declare {
 public:
  explicit Declare(CLI::App& app) : app_(app) {}

  void axis(const std::string& name, std::vector<std::int64_t>& target, const std::string& what) {
    text(name, "LIST", what,
         [name, &target](const std::string& value) { target = parse_axis(name, value); });
  }
  template <typename T>
  void list(const std::string& name, std::vector<T>& target, const Choices<T>& choices,
            const std::string& what) {
    text(name, "LIST", fmt::format("{}: {}", what, accepted(choices)),
         [name, &target, &choices](const std::string& value) {
           target.clear();
           for (const std::string& token : split_list(name, value, accepted(choices))) {
             target.push_back(choose(name, token, choices));
           }
         });
  }
  template <typename T>
  void choice(const std::string& name, T& target, const Choices<T>& choices,
              const std::string& what) {
    text(name, "NAME", fmt::format("{}: {}", what, accepted(choices)),
         [name, &target, &choices](const std::string& value) {
           target = choose(name, value, choices);
         });
  }
  /// `take`: called with the option's text.
  template <typename Take>
  void text(const std::string& names, const std::string& type, const std::string& what,
            const Take& take) {
    app_.add_option(
            names,
            [take](const CLI::results_t& results) {
              take(results.front());
              return true;
            },
            what)
        ->type_name(type);
  }
  void flag(const std::string& name, bool& target, const std::string& what) {
    app_.add_flag(name, target, what);
  }

  void device(DeviceChoice& target) { choice("--device", target, devices(), "Where to run"); }
  void implementations(std::vector<std::string>& target) {
    text("--impl", "LIST",
         "Implementations by name (see 'flashbench list'), naive or fused for the best of that "
         "kind, or all",
         [&target](const std::string& value) {
           target = split_list("--impl", value, "implementation names, naive, fused, all");
         });
  }
  void seed(std::uint64_t& target) {
    text("--seed", "N", "Seed of the generated inputs: an integer from 0",
         [&target](const std::string& value) { target = parse_seed("--seed", value); });
  }
  void grid(GridSpec& grid) {
    axis("--n", grid.n,
         "Sequence lengths: 1024,4096 or ranges, 512..64k (doubling), 512..64k*4, 512..4096+512");
    axis("--n-q", grid.n_q, "Numbers of queries, with --n-kv in the place of --n");
    axis("--n-kv", grid.n_kv, "Numbers of keys, with --n-q in the place of --n");
    axis("--head-dim", grid.head_dim, "Head dimensions");
    list("--dtype", grid.dtype, dtypes(), "Storage types");
    list("--mask", grid.mask, masks(), "Masks");
    axis("--batch", grid.batch, "Batch sizes");
    axis("--tokens", grid.tokens, "In the place of --batch: batch = max(1, tokens / N)");
    axis("--heads", grid.heads, "Numbers of query heads");
    axis("--hidden", grid.hidden, "In the place of --heads: heads = hidden / head dimension");
    axis("--kv-heads", grid.kv_heads,
         "Numbers of key/value heads, which divide the heads (default: as many)");
  }

 private:
  CLI::App& app_;
};

void declare_sweep(CLI::App& app, SweepOptions& options) {
  Declare declare(app);
  Settings& settings = options.settings;
  declare.grid(options.grid);
  declare.implementations(options.implementations);
  declare.device(options.device);
  declare.text("-o,--output", "FILE", "Where the run goes as JSON; - is standard output",
               [&](const std::string& value) { options.output = value; });
  declare.flag("--quick", options.quick, "Fewer lengths, shorter sampling: a first look");
  declare.choice("--curves", options.curves, curve_choices(),
                 "How the curves after the table are drawn");
  declare.seed(settings.seed);
  declare.choice("--data", settings.distribution, data(), "How Q, K and V are drawn");
  declare.choice("--cache", settings.cache, cache_states(),
                 "Last-level cache before each sample, overwritten or as the last one left it");
  declare.choice("--load", settings.load, loads(),
                 "Power window: short samples with rests, or held for a second first");
  declare.text(
      "--samples", "N", "Samples of a cell, at most: a positive integer",
      [&](const std::string& value) { settings.samples = parse_count("--samples", value); });
  declare.text("--time-limit", "SECONDS", "Of sampling, a cell: a positive number",
               [&](const std::string& value) {
                 options.time_limit_s = parse_positive("--time-limit", value);
               });
  declare.text(
      "--precision", "PERCENT",
      "Half-width of the median's confidence interval that ends sampling: a positive number, "
      "like 0.5",
      [&](const std::string& value) {
        settings.precision = parse_positive("--precision", value) / 100;
      });
  declare.choice("--counters", settings.counters, counter_modes(),
                 "Read the GPU's own counters where they can be had, or fail, or not at all");
  declare.flag("--no-references", options.no_references,
               "Leave out the bandwidths and rates that are measured beside the cells");
  declare.flag("--noise-floor", settings.noise_floor,
               "Time one implementation against itself first: the ratio must cover 1");
}

void declare_verify(CLI::App& app, VerifyOptions& options) {
  Declare declare(app);
  declare.implementations(options.implementations);
  declare.device(options.device);
  declare.seed(options.seed);
  declare.flag("--thorough", options.thorough, "Many more cases: minutes to hours");
  declare.flag("--self-test", options.self_test,
               "Judge implementations that are wrong on purpose: each must be called not exact");
  declare.text("--json", "FILE", "Where the verdicts go as JSON; - is standard output",
               [&](const std::string& value) { options.json = value; });
}

/// A required file.
void declare_file(CLI::App& app, const std::string& name, std::string& target,
                  const std::string& what) {
  Declare(app).text(name, "FILE", what, [&target](const std::string& value) { target = value; });
}

void declare_tensors(CLI::App& app, TensorOptions& options) {
  Declare declare(app);
  declare_file(app, "--q", options.q, "Queries, .npy of float32, float16 or bfloat16");
  declare_file(app, "--k", options.k, "Keys, .npy");
  declare_file(app, "--v", options.v, "Values, .npy");
  declare.text("--layout", "NAME", "Order of the files' axes: bnhd, bhnd",
               [&](const std::string& value) { options.layout = value; });
  declare.choice("--mask", options.mask, masks(), "Mask");
  declare.text("--scale", "NUMBER", "Factor on Q K^T: a positive number (default 1/sqrt(head dim))",
               [&](const std::string& value) { options.scale = parse_positive("--scale", value); });
}

void require_files(const std::string& command,
                   const std::vector<std::pair<std::string, const std::string*>>& files) {
  for (const auto& [name, value] : files) {
    if (value->empty()) {
      throw UsageError(fmt::format("{} needs {}: a .npy file", command, name));
    }
  }
}

void declare_check(CLI::App& app, CheckOptions& options) {
  Declare declare(app);
  declare_tensors(app, options.tensors);
  declare_file(app, "--out", options.out, "The output to judge, .npy of the dtype of Q");
  declare.text("--lse", "FILE", "Its log-sum-exp, .npy of float32, batch x heads x n_q",
               [&](const std::string& value) { options.lse = value; });
  declare.flag("--materialised", options.materialised,
               "Its scores were stored in the dtype: allow for that rounding");
  declare.seed(options.seed);
  declare.text("--json", "FILE", "Where the verdict goes as JSON; - is standard output",
               [&](const std::string& value) { options.json = value; });
}

void declare_run(CLI::App& app, RunOptions& options) {
  Declare declare(app);
  declare_tensors(app, options.tensors);
  declare.implementations(options.implementations);
  declare.device(options.device);
  declare_file(app, "--out", options.out, "Where the output goes, .npy");
  declare.text("--lse", "FILE", "Where the log-sum-exp goes, .npy of float32, batch x heads x n_q",
               [&](const std::string& value) { options.lse = value; });
}

void declare_profile(CLI::App& app, ProfileOptions& options) {
  Declare declare(app);
  declare.grid(options.grid);
  declare.implementations(options.implementations);
  declare.device(options.device);
  declare.seed(options.seed);
  declare.choice("--cache", options.cache, cache_states(),
                 "Last-level cache before each launch, overwritten or as the last one left it");
  declare.text(
      "--launches", "N", "Launches inside the profiled range: a positive integer",
      [&](const std::string& value) { options.launches = parse_count("--launches", value); });
}

std::string version_text() {
  return fmt::format("flashbench {} ({}, {})\n", tool_version(), tool_commit(), tool_build_type());
}

}  // namespace

Options parse_options(int argc, const char* const* argv) {
  const std::vector<std::string> command(argv, argv + argc);
  SweepOptions sweep;
  sweep.command = command;
  VerifyOptions verify;
  verify.command = command;
  CheckOptions check;
  check.command = command;
  RunOptions run;
  ReferencesOptions references;
  ListOptions list;
  InfoOptions info;
  ProfileOptions profile;
  profile.command = command;

  CLI::App app("Materialised against fused attention: time, memory and HBM traffic, checked exact.",
               "flashbench");
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  CLI::App* sweep_app = app.add_subcommand(
      "sweep", "Run implementations over sequence lengths, head dimensions, dtypes and masks");
  CLI::App* verify_app =
      app.add_subcommand("verify", "Judge every implementation exact or not, on many shapes");
  CLI::App* check_app =
      app.add_subcommand("check", "Judge an output that any program made from .npy files");
  CLI::App* run_app =
      app.add_subcommand("run", "Compute one attention from .npy files and save the output");
  CLI::App* references_app =
      app.add_subcommand("references", "Measure the bandwidths and rates of the device");
  CLI::App* list_app = app.add_subcommand("list", "The implementations and what they support");
  CLI::App* info_app = app.add_subcommand("info", "The device and this build");
  CLI::App* profile_app =
      app.add_subcommand("profile", "Launch one problem between profiler marks, for ncu and nsys");
  declare_sweep(*sweep_app, sweep);
  declare_verify(*verify_app, verify);
  declare_check(*check_app, check);
  declare_run(*run_app, run);
  Declare(*references_app).device(references.device);
  Declare(*references_app).choice("--load", references.load, loads(), "Power window");
  Declare(*references_app).list("--dtype", references.dtype, dtypes(), "Of the matrix products");
  Declare(*list_app).device(list.device);
  Declare(*info_app).device(info.device);
  declare_profile(*profile_app, profile);

  try {
    // CLI11 takes its arguments from the back.
    std::vector<std::string> arguments =
        canonical_arguments(app, {command.begin() + 1, command.end()});
    std::reverse(arguments.begin(), arguments.end());
    app.parse(arguments);
  } catch (const CLI::CallForVersion& call) {
    return TextOptions{version_text()};
  } catch (const CLI::Success&) {
    const auto commands = app.get_subcommands();
    return TextOptions{commands.empty() ? app.help() : commands.front()->help()};
  } catch (const CLI::RequiredError&) {
    throw UsageError(
        "no command given; accepted: sweep, verify, check, run, references, list, info, profile; "
        "see 'flashbench --help'");
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
  if (sweep_app->parsed()) return sweep;
  if (verify_app->parsed()) return verify;
  if (check_app->parsed()) {
    require_files("check", {{"--q", &check.tensors.q},
                            {"--k", &check.tensors.k},
                            {"--v", &check.tensors.v},
                            {"--out", &check.out}});
    return check;
  }
  if (run_app->parsed()) {
    require_files("run", {{"--q", &run.tensors.q},
                          {"--k", &run.tensors.k},
                          {"--v", &run.tensors.v},
                          {"--out", &run.out}});
    return run;
  }
  if (references_app->parsed()) return references;
  if (list_app->parsed()) return list;
  if (info_app->parsed()) return info;
  return profile;
}

}  // namespace flashbench
