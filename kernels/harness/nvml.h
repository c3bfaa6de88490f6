#pragma once

#include <optional>
#include <string>

#include "device.h"

namespace flashbench {

/// Power, temperature and clocks of one card through NVML, which comes with the driver and is
/// loaded when this is made. The card is found by its UUID: ordinals are counted differently under
/// CUDA_VISIBLE_DEVICES.
class Nvml {
 public:
  /// `uuid`: as in DeviceInfo. Where the library, the card or a reading is missing, that is all
  /// that is missing: no errors. `library`: the file to load, for tests.
  explicit Nvml(const std::string& uuid, const std::string& library = "libnvidia-ml.so.1");
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml();

  /// Nothing without library or card.
  std::optional<DeviceState> state() const;

 private:
  void* library_ = nullptr;
  void* card_ = nullptr;
};

}  // namespace flashbench
