#include <fmt/format.h>

#include "annotate.h"
#include "commands.h"
#include "device_choice.h"
#include "device_text.h"
#include "error.h"
#include "units.h"
#include "version.h"

namespace flashbench {
namespace {

void line(std::string_view name, std::string_view value) {
  fmt::print("{:<18}{}\n", name, value);
}

std::string or_unknown(bool known, const std::string& value) {
  return known ? value : "unknown";
}

void show(const Device& device) {
  const DeviceInfo& info = device.info();
  const bool gpu = info.kind == DeviceKind::cuda;
  line("device", info.name);
  line("kind", to_string(info.kind));
  if (gpu) {
    line("uuid", or_unknown(!info.uuid.empty(), info.uuid));
    line("architecture", fmt::format("sm_{}", info.compute_capability));
    line("driver", or_unknown(!info.driver.empty(), info.driver));
  }
  line(gpu ? "CUDA runtime" : "BLAS", or_unknown(!info.runtime.empty(), info.runtime));
  line(gpu ? "multiprocessors" : "threads", fmt::format("{}", info.sm_count));
  line("memory", fmt::format("{}, {} free", format_bytes(static_cast<double>(info.memory_bytes)),
                             format_bytes(static_cast<double>(device.free_bytes()))));
  line("last-level cache",
       or_unknown(info.l2_bytes > 0, format_bytes(static_cast<double>(info.l2_bytes))));
  if (!gpu) return;
  line("shared memory",
       fmt::format("{} a block", format_bytes(static_cast<double>(info.shared_memory_per_block))));
  line("SM clock", or_unknown(info.max_clock_hz > 0,
                              fmt::format("{:.0f} MHz at most", info.max_clock_hz / 1e6)));
  line("memory rate", or_unknown(info.memory_peak_bytes_per_s > 0,
                                 fmt::format("{:.2f} TB/s by the data sheet",
                                             info.memory_peak_bytes_per_s / 1e12)));
  line("ECC", info.ecc ? "on" : "off");
  line("at the moment", describe(device.state().value_or(DeviceState{})));
}

std::string counters(const Backend& backend) {
  if (!backend.open_profiler) return "none on this kind of device";
  try {
    backend.open_profiler(*backend.device);
    return "available";
  } catch (const Error& error) {
    return fmt::format("not available: {}", error.what());
  }
}

}  // namespace

int run(const InfoOptions& options) {
  line("flashbench", tool_version());
  line("commit", tool_commit());
  line("build",
       fmt::format("{}, {}", tool_build_type(), built_with_cuda() ? "with CUDA" : "without CUDA"));
  line("NVTX ranges", annotations_built() ? "built in" : "not built: nvtx3 was not found");
  const Backend backend = open_backend(options.device);
  line("counters", counters(backend));
  show(*backend.device);
  fmt::print("\nruns on {}\n", describe(backend.device->info()));
  return 0;
}

}  // namespace flashbench
