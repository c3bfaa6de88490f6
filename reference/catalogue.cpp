#include "reference/catalogue.h"

namespace flashbench {

Catalogue cpu_catalogue() {
  Catalogue catalogue;
  catalogue.push_back(make_cpu_naive());
  catalogue.push_back(make_cpu_fused());
  return catalogue;
}

}  // namespace flashbench
