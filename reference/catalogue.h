#pragma once

#include <memory>

#include "implementation.h"

namespace flashbench {

std::unique_ptr<Implementation> make_cpu_naive();
std::unique_ptr<Implementation> make_cpu_fused();
// Approximate: controls that must be judged not exact.
std::unique_ptr<Implementation> make_cpu_sliding_window();
std::unique_ptr<Implementation> make_cpu_linear();
std::unique_ptr<Implementation> make_cpu_block_topk();
std::unique_ptr<Implementation> make_cpu_lowrank();

/// Every CPU implementation, the preferred one of a kind first.
Catalogue cpu_catalogue();

}  // namespace flashbench
