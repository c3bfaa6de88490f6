#include "device.h"

namespace flashbench {

std::string_view to_string(DeviceKind kind) {
  return kind == DeviceKind::cpu ? "cpu" : "cuda";
}

std::string_view to_string(CacheState state) {
  return state == CacheState::cold ? "cold" : "warm";
}

}  // namespace flashbench
