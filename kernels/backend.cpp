#include "backend.h"

#include "kernels/catalogue.h"
#include "kernels/harness/cuda_device.h"
#include "kernels/harness/cuda_references.h"
#include "kernels/harness/cupti_counters.h"
#include "reference/oracle_cuda.h"

namespace flashbench {

Backend make_cuda_backend() {
  Backend backend;
  backend.device = make_cuda_device();
  backend.oracle = make_cuda_oracle(backend.device->stream());
  backend.catalogue = cuda_catalogue();
  backend.open_profiler = [](Device& device) { return make_cupti_profiler(device); };
  backend.open_references = make_cuda_reference_bench;
  return backend;
}

}  // namespace flashbench
