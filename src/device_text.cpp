#include "device_text.h"

#include <fmt/format.h>

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

}  // namespace flashbench
