#include "backend.h"

#include <string>

#include "cpu_device.h"
#include "error.h"
#include "reference/catalogue.h"
#include "reference/cpu_references.h"
#include "reference/openblas.h"
#include "reference/oracle.h"

namespace flashbench {
namespace {

/// The BLAS in use; without one cpu-naive says why it cannot run, and everything else works.
std::string blas_description() {
  try {
    return openblas().description;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

Backend make_cpu_backend() {
  Backend backend;
  backend.device = std::make_unique<CpuDevice>(blas_description());
  backend.oracle = make_cpu_oracle();
  backend.catalogue = cpu_catalogue();
  backend.open_references = make_cpu_reference_bench;
  return backend;
}

}  // namespace flashbench
