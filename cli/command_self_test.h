#pragma once

#include "options.h"

namespace flashbench {

/// `flashbench verify --self-test`: does the suite tell wrong implementations from right ones? The
/// exit code is 0 where every mutant is called not exact and every right implementation exact,
/// else 1.
int run_self_test(const VerifyOptions& options);

}  // namespace flashbench
