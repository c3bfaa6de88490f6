#include "kernels/catalogue.h"

namespace flashbench {

Catalogue cuda_catalogue() {
  Catalogue catalogue;
  catalogue.push_back(make_naive());
  catalogue.push_back(make_fused_wgmma());
  catalogue.push_back(make_fused_mma());
  catalogue.push_back(make_fused_simt());
  catalogue.push_back(make_cudnn());
  catalogue.push_back(make_sliding_window());
  catalogue.push_back(make_linear());
  catalogue.push_back(make_block_topk());
  catalogue.push_back(make_lowrank());
  return catalogue;
}

}  // namespace flashbench
