#pragma once

#include "npy.h"
#include "options.h"
#include "tensor.h"

namespace flashbench {

/// Q, K and V of one attention, read from files, in host memory as batch, rows, heads, head_dim.
struct HostTensors {
  Problem problem;
  NpyArray q;
  NpyArray k;
  NpyArray v;
};

/// Throws UsageError where the files' types or shapes do not make one attention, naming the file.
HostTensors load_tensors(const TensorOptions& options);

/// An array of the shape of O; throws UsageError where `path` holds another shape or dtype.
NpyArray load_output(const std::string& path, const TensorOptions& options, const Problem& problem);

/// A view of an array of four axes.
Tensor view(NpyArray& array);

}  // namespace flashbench
