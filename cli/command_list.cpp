#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "commands.h"
#include "device_choice.h"
#include "device_text.h"
#include "error.h"
#include "support.h"
#include "terminal.h"

namespace flashbench {
namespace {

/// Compute capabilities that results/ holds runs from; tests/record_test.cpp holds this against the
/// files.
constexpr std::array kArchitecturesOnRecord{90};

/// A catalogue with the device that it is shown for.
struct Shelf {
  const Catalogue* catalogue = nullptr;
  DeviceInfo device;
  std::optional<std::string> obstacle;  ///< why none of it runs here
};

/// What CUDA implementations are asked about where there is no device: the architecture on record.
DeviceInfo recorded_gpu() {
  DeviceInfo device;
  device.kind = DeviceKind::cuda;
  device.name = "GPU of compute capability 9.0";
  device.compute_capability = 90;
  device.sm_count = 132;
  device.memory_bytes = std::int64_t{140} << 30U;
  device.l2_bytes = std::int64_t{60} << 20U;
  device.shared_memory_per_block = 227 << 10U;
  return device;
}

bool on_record(const DeviceInfo& device) {
  return device.kind == DeviceKind::cpu ||
         std::find(kArchitecturesOnRecord.begin(), kArchitecturesOnRecord.end(),
                   device.compute_capability) != kArchitecturesOnRecord.end();
}

/// Prints an implementation; true where it can run here.
bool show(const Implementation& implementation, const Shelf& shelf, const Style& style) {
  fmt::print("{} ({}, {}): {}\n", paint(implementation.name(), Ink::bold, style),
             to_string(implementation.device()), to_string(implementation.kind()),
             implementation.description());
  const std::vector<std::string> support = describe_support(implementation, shelf.device);
  for (const std::string& line : support) fmt::print("    {}\n", line);
  std::optional<std::string> obstacle = shelf.obstacle;
  if (!obstacle) obstacle = implementation.unavailable(shelf.device);
  if (!obstacle && support.empty()) obstacle = "supports no problem on this device";
  if (obstacle) {
    fmt::print("    {}\n", paint("not here: " + *obstacle, Ink::yellow, style));
  } else if (!on_record(shelf.device)) {
    fmt::print("    {}\n", paint(fmt::format("never run on this architecture (sm_{})",
                                             shelf.device.compute_capability),
                                 Ink::yellow, style));
  }
  return !obstacle;
}

}  // namespace

int run(const ListOptions& options) {
  const Style style = style_of(stdout);
  std::vector<Shelf> shelves;

  Catalogue without_device;
  std::optional<Backend> cuda;
  if (options.device != DeviceChoice::cpu) {
    try {
      cuda = open_backend(DeviceChoice::cuda);
      shelves.push_back({&cuda->catalogue, cuda->device->info(), std::nullopt});
    } catch (const Error& error) {
      if (options.device == DeviceChoice::cuda && !built_with_cuda()) throw;
      without_device = built_cuda_catalogue();
      shelves.push_back({&without_device, recorded_gpu(), error.what()});
    }
  }
  std::optional<Backend> cpu;
  if (options.device != DeviceChoice::cuda) {
    cpu = open_backend(DeviceChoice::cpu);
    shelves.push_back({&cpu->catalogue, cpu->device->info(), std::nullopt});
  }

  std::size_t all = 0;
  std::size_t usable = 0;
  for (const Shelf& shelf : shelves) {
    if (shelf.catalogue->empty()) continue;
    fmt::print("On {}\n", shelf.obstacle ? "a " + shelf.device.name : describe(shelf.device));
    for (const auto& implementation : *shelf.catalogue) {
      ++all;
      if (show(*implementation, shelf, style)) ++usable;
    }
    fmt::print("\n");
  }
  fmt::print("{} implementations, {} of them can run here{}\n", all, usable,
             built_with_cuda() ? "" : "; the CUDA ones are not in this build");
  return 0;
}

}  // namespace flashbench
