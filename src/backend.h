#pragma once

#include <memory>

#include "device.h"
#include "implementation.h"
#include "oracle.h"

namespace flashbench {

/// Everything that runs on one device. cli puts it together; tests hand in fakes.
struct Backend {
  std::unique_ptr<Device> device;
  std::unique_ptr<Oracle> oracle;
  Catalogue catalogue;  ///< the preferred implementation of a kind first
};

/// On the CPU (reference/backend.cpp).
Backend make_cpu_backend();

/// On the CUDA device that is current (kernels/backend.cpp); throws Error with the reason where
/// there is none.
Backend make_cuda_backend();

}  // namespace flashbench
