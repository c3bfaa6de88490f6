#pragma once

#include <cblas.h>

#include <optional>
#include <string>

namespace flashbench {

/// OpenBLAS as the process uses it: one thread, so that the caller runs one product on each of its
/// own threads.
struct OpenBlas {
  std::string description;  ///< "OpenBLAS 0.3.21 SkylakeX": version and the processor its kernels
                            ///< are made for
  decltype(&cblas_sgemm) sgemm = nullptr;
};

/// Loads OpenBLAS on the first call. Throws Error where it is not installed, or where its products
/// are wrong on this processor.
///
/// It is loaded here and not linked because it chooses its kernels while it loads, from a table of
/// the processors that its release knew: 0.3.21 takes an Emerald Rapids for a Prescott and runs at
/// a fifth of the speed, which would make a baseline that is too easy to beat. OPENBLAS_CORETYPE
/// overrides the table and is set from the instruction sets that the processor reports, unless the
/// user has set it.
const OpenBlas& openblas();

/// Why openblas() throws, or nothing.
std::optional<std::string> openblas_refusal();

}  // namespace flashbench
