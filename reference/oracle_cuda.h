#pragma once

#include <memory>

#include "device.h"
#include "src/oracle.h"  // by its path: beside this file, "oracle.h" is the CPU's

namespace flashbench {

/// The oracle for tensors on the CUDA device that is current: float64, its kernels on `stream`, at
/// most some 600 MB of device memory of its own while a call lasts. Calls throw what check_cuda()
/// throws.
std::unique_ptr<Oracle> make_cuda_oracle(Stream stream);

}  // namespace flashbench
