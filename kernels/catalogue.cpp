#include "kernels/catalogue.h"

namespace flashbench {

Catalogue cuda_catalogue() {
  Catalogue catalogue;
  catalogue.push_back(make_naive());
  catalogue.push_back(make_fused_wgmma());
  catalogue.push_back(make_fused_mma());
  catalogue.push_back(make_fused_simt());
  catalogue.push_back(make_cudnn());
  return catalogue;
}

}  // namespace flashbench
