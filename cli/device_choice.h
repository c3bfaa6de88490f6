#pragma once

#include <optional>
#include <string>

#include "backend.h"
#include "options.h"

namespace flashbench {

/// The backend asked for; `automatic` takes CUDA where a device answers, else the CPU, and says so
/// on stderr. Throws Error where the one asked for is not to be had.
Backend open_backend(DeviceChoice choice);

/// Why there is no CUDA device, or nothing where there is one.
std::optional<std::string> cuda_obstacle();

/// The CUDA implementations of this build, with or without a device; empty in a CPU-only build.
Catalogue built_cuda_catalogue();

bool built_with_cuda();

}  // namespace flashbench
