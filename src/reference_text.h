#pragma once

#include <string>

#include "references.h"

namespace flashbench {

/// A rate with its unit: "4.26 TB/s", "795 TFLOP/s", "3.90 T/s" (exponentials).
std::string format_rate(Reference reference, double rate);

/// What a person calls it: "copy", "bf16 matrix product", "exp2".
std::string name_of(Reference reference);

/// One line: "copy 4.26 TB/s, read 4.45 TB/s, bf16 matrix product 795 TFLOP/s". Empty without
/// references.
std::string describe(const References& references);

}  // namespace flashbench
