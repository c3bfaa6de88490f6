#pragma once

#include "options.h"

namespace flashbench {

/// Each returns the exit code and throws Error for what ends the command.
int run(const SweepOptions& options);
int run(const VerifyOptions& options);
int run(const CheckOptions& options);
int run(const RunOptions& options);
int run(const ReferencesOptions& options);
int run(const ListOptions& options);
int run(const InfoOptions& options);
int run(const ProfileOptions& options);
int run(const TextOptions& options);

}  // namespace flashbench
