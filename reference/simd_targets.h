#pragma once

// Scalable vectors (SVE, RVV) can be neither elements of arrays nor counted at compile time, and
// the kernels here need both: such processors run the NEON or the scalar version.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
