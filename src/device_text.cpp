#include "device_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "units.h"

namespace flashbench {

std::string describe(const DeviceInfo& device) {
  const std::string memory = format_bytes(static_cast<double>(device.memory_bytes));
  if (device.kind == DeviceKind::cuda) {
    return fmt::format("{}, sm_{}, {} multiprocessors, {}, driver {}, CUDA {}", device.name,
                       device.compute_capability, device.sm_count, memory, device.driver,
                       device.runtime);
  }
  return fmt::format("{}, {} {}, {}{}{}", device.name, device.sm_count,
                     device.sm_count == 1 ? "thread" : "threads", memory,
                     device.runtime.empty() ? "" : ", ", device.runtime);
}

std::string describe(const DeviceState& state) {
  std::vector<std::string> parts;
  if (state.power_w) {
    const std::string limit =
        state.power_limit_w ? fmt::format(" of {:.0f}", *state.power_limit_w) : "";
    parts.push_back(fmt::format("{:.0f}{} W", *state.power_w, limit));
  }
  if (state.temperature_c) parts.push_back(fmt::format("{:.0f} °C", *state.temperature_c));
  if (state.sm_clock_hz) parts.push_back(fmt::format("SM at {:.0f} MHz", *state.sm_clock_hz / 1e6));
  if (state.throttle_reasons) {
    parts.push_back(state.throttle_reasons->empty()
                        ? "nothing holds the clock down"
                        : fmt::format("held down by {}", fmt::join(*state.throttle_reasons, ", ")));
  }
  return parts.empty() ? "unknown" : fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace flashbench
