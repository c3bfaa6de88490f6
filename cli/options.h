#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cell.h"
#include "grid.h"

namespace flashbench {

enum class DeviceChoice : std::uint8_t { automatic, cpu, cuda };
enum class CurveChoice : std::uint8_t { automatic, braille, ascii, off };

/// What a command line asks for, checked as far as that goes without a device. An empty axis or an
/// absent value is left to the command's defaults, which may depend on the device.
struct SweepOptions {
  GridSpec grid;
  std::vector<std::string> implementations;
  DeviceChoice device = DeviceChoice::automatic;
  Settings settings;
  std::optional<double> time_limit_s;
  std::optional<std::string> output;
  CurveChoice curves = CurveChoice::automatic;
  bool quick = false;
  bool no_references = false;
  std::vector<std::string> command;  ///< the command line, for the record
};

struct VerifyOptions {
  std::vector<std::string> implementations;
  DeviceChoice device = DeviceChoice::automatic;
  std::uint64_t seed = 0;
  bool thorough = false;
  bool self_test = false;
  std::optional<std::string> json;
  std::vector<std::string> command;
};

struct ReferencesOptions {
  DeviceChoice device = DeviceChoice::automatic;
  Load load = Load::burst;
  std::vector<Dtype> dtype;
};

/// One attention's tensors, in .npy files.
struct TensorOptions {
  std::string q;
  std::string k;
  std::string v;
  std::string layout = "bnhd";
  Mask mask = Mask::none;
  std::optional<double> scale;  ///< 1 / sqrt(head_dim) when not given
};

/// Computes one attention and saves what it wrote.
struct RunOptions {
  TensorOptions tensors;
  std::vector<std::string> implementations;
  DeviceChoice device = DeviceChoice::automatic;
  std::string out;
  std::optional<std::string> lse;
};

/// Judges an output that somebody else made.
struct CheckOptions {
  TensorOptions tensors;
  std::string out;
  std::optional<std::string> lse;
  bool materialised = false;
  std::optional<std::string> json;
  std::uint64_t seed = 0;
  std::vector<std::string> command;
};

struct ListOptions {
  DeviceChoice device = DeviceChoice::automatic;
};

struct InfoOptions {
  DeviceChoice device = DeviceChoice::automatic;
};

struct ProfileOptions {
  GridSpec grid;
  std::vector<std::string> implementations;
  DeviceChoice device = DeviceChoice::automatic;
  CacheState cache = CacheState::cold;
  std::uint64_t seed = 0;
  std::int64_t launches = 1;
  std::vector<std::string> command;
};

/// --help and --version.
struct TextOptions {
  std::string text;
};

using Options =
    std::variant<SweepOptions, VerifyOptions, CheckOptions, RunOptions, ReferencesOptions,
                 ListOptions, InfoOptions, ProfileOptions, TextOptions>;

/// Throws UsageError, which names the offending token and what is accepted.
Options parse_options(int argc, const char* const* argv);

}  // namespace flashbench
