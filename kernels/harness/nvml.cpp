#include "kernels/harness/nvml.h"

#include <dlfcn.h>

#include <string>
#include <vector>

namespace flashbench {
namespace {

// The part of NVML's C interface that is used here (NVML API Reference; stable by NVIDIA's word),
// declared here because its header is a package of its own.
constexpr int kSuccess = 0;
constexpr int kTemperatureGpu = 0;
constexpr int kClockSm = 1;

template <typename... Arguments>
using Function = int(Arguments...);

/// The library's function, or null.
template <typename... Arguments>
Function<Arguments...>* find(void* library, const char* name) {
  return reinterpret_cast<Function<Arguments...>*>(dlsym(library, name));
}

struct Reason {
  unsigned long long bit;
  const char* name;
};

// nvmlClocksEventReasons. Idle clocks and clocks that an administrator set are no throttling of a
// kernel, but they hold the clock down all the same, so they are named.
constexpr Reason kReasons[] = {
    {0x001, "idle"},
    {0x002, "application_clocks"},
    {0x004, "power_cap"},
    {0x008, "hardware_slowdown"},
    {0x010, "sync_boost"},
    {0x020, "thermal"},
    {0x040, "hardware_thermal"},
    {0x080, "power_brake"},
    {0x100, "display_clocks"},
};

template <typename Value, typename... Leading>
std::optional<Value> read(void* library, const char* name, Leading... leading) {
  auto* function = find<Leading..., Value*>(library, name);
  Value value{};
  if (function == nullptr || function(leading..., &value) != kSuccess) return std::nullopt;
  return value;
}

std::optional<double> scaled(std::optional<unsigned int> value, double unit) {
  return value ? std::optional(*value * unit) : std::nullopt;
}

}  // namespace

Nvml::Nvml(const std::string& uuid, const std::string& library)
    : library_(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) return;
  auto* initialize = find<>(library_, "nvmlInit_v2");
  if (initialize == nullptr || initialize() != kSuccess) {
    dlclose(library_);
    library_ = nullptr;
    return;
  }
  card_ = read<void*>(library_, "nvmlDeviceGetHandleByUUID", uuid.c_str()).value_or(nullptr);
}

Nvml::~Nvml() {
  if (library_ == nullptr) return;
  if (auto* shut_down = find<>(library_, "nvmlShutdown")) shut_down();
  dlclose(library_);
}

std::optional<DeviceState> Nvml::state() const {
  if (card_ == nullptr) return std::nullopt;
  DeviceState state;
  state.power_w = scaled(read<unsigned int>(library_, "nvmlDeviceGetPowerUsage", card_), 1e-3);
  state.power_limit_w =
      scaled(read<unsigned int>(library_, "nvmlDeviceGetEnforcedPowerLimit", card_), 1e-3);
  state.temperature_c =
      scaled(read<unsigned int>(library_, "nvmlDeviceGetTemperature", card_, kTemperatureGpu), 1.0);
  state.sm_clock_hz =
      scaled(read<unsigned int>(library_, "nvmlDeviceGetClockInfo", card_, kClockSm), 1e6);
  // Two names of one function, the newer one first.
  auto bits = read<unsigned long long>(library_, "nvmlDeviceGetCurrentClocksEventReasons", card_);
  if (!bits) {
    bits = read<unsigned long long>(library_, "nvmlDeviceGetCurrentClocksThrottleReasons", card_);
  }
  if (bits) {
    state.throttle_reasons.emplace();
    for (const Reason& reason : kReasons) {
      if ((*bits & reason.bit) != 0) state.throttle_reasons->emplace_back(reason.name);
    }
  }
  return state;
}

}  // namespace flashbench
