#include "reference/catalogue.h"

namespace flashbench {

Catalogue cpu_catalogue() {
  Catalogue catalogue;
  catalogue.push_back(make_cpu_naive());
  catalogue.push_back(make_cpu_fused());
  catalogue.push_back(make_cpu_sliding_window());
  catalogue.push_back(make_cpu_linear());
  catalogue.push_back(make_cpu_block_topk());
  catalogue.push_back(make_cpu_lowrank());
  return catalogue;
}

}  // namespace flashbench
