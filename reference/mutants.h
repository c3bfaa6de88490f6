#pragma once

#include <memory>

#include "implementation.h"
#include "reference/faulty_kernel.h"

namespace flashbench {

/// Implementations that are wrong on purpose, one for each fault of faulty_kernel.h: what `verify
/// --self-test` must call not exact. They are in no other catalogue.
Catalogue mutant_catalogue();

/// The same kernel without a fault, which must be exact; its name is "plain-tiled".
std::unique_ptr<Implementation> make_plain_tiled();

}  // namespace flashbench
