#pragma once

#include <memory>

#include "implementation.h"

namespace flashbench {

std::unique_ptr<Implementation> make_naive();
std::unique_ptr<Implementation> make_fused_mma();
std::unique_ptr<Implementation> make_fused_simt();
std::unique_ptr<Implementation> make_fused_wgmma();
std::unique_ptr<Implementation> make_cudnn();
std::unique_ptr<Implementation> make_sliding_window();
std::unique_ptr<Implementation> make_linear();
std::unique_ptr<Implementation> make_block_topk();
std::unique_ptr<Implementation> make_lowrank();

/// Every CUDA implementation, the preferred one of a kind first.
Catalogue cuda_catalogue();

}  // namespace flashbench
