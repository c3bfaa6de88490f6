#pragma once

#include "problem.h"
#include "reference/faults.h"
#include "tensor.h"

namespace flashbench {

/// Attention by one plain tiled kernel with online softmax, f32 arithmetic, weights rounded to the
/// dtype before the second product: exact with Fault::none. Tensors in host memory; `operands.lse`
/// may be null.
void faulty_attention(const Problem& problem, const Operands& operands, Fault fault);

}  // namespace flashbench
