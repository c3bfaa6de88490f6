#pragma once

#include <cstdint>
#include <vector>

#include "device.h"
#include "verify.h"

namespace flashbench {

struct SuiteOptions {
  std::uint64_t seed = 0;
  bool thorough = false;
};

/// The cases of `flashbench verify`: every distribution, then the shapes that break kernels (1;
/// tile edges and one beside them; n_q and n_kv apart either way; rows that see nothing; grouped
/// heads; head dimensions; batch x heads beyond 65535; many keys; on CUDA more than 2^31 elements),
/// the three dtypes in turn. By default all of it takes under four minutes on two CPU cores for the
/// CPU's implementations; `thorough` crosses distributions, dtypes, masks and shapes. Names are
/// unique; a seed repeats the inputs exactly.
std::vector<VerifyCase> verify_suite(DeviceKind device, const SuiteOptions& options);

}  // namespace flashbench
