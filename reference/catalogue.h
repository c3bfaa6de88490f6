#pragma once

#include <memory>

#include "implementation.h"

namespace flashbench {

std::unique_ptr<Implementation> make_cpu_naive();
std::unique_ptr<Implementation> make_cpu_fused();

/// Every CPU implementation, the preferred one of a kind first.
Catalogue cpu_catalogue();

}  // namespace flashbench
