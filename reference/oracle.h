#pragma once

#include <memory>

#include "src/oracle.h"  // by its path: beside this file, "oracle.h" is this file

namespace flashbench {

/// The oracle for tensors in host memory: float64, on cpu_threads() threads.
std::unique_ptr<Oracle> make_cpu_oracle();

}  // namespace flashbench
