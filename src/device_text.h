#pragma once

#include <string>

#include "device.h"

namespace flashbench {

/// One line: "NVIDIA H200, sm_90, 139 GiB, driver 13.0, runtime 13.0" or "AMD EPYC ..., 2
/// threads, 15.6 GiB, OpenBLAS 0.3.21".
std::string describe(const DeviceInfo& device);

/// How it is doing: "312 of 700 W, 54 °C, SM at 1965 MHz, held down by power_cap, thermal". What
/// cannot be read is left out.
std::string describe(const DeviceState& state);

}  // namespace flashbench
