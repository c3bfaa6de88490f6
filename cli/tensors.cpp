#include "tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "error.h"

namespace flashbench {
namespace {

std::string shape_text(const NpyArray& array) {
  return fmt::format("[{}]", fmt::join(array.shape, ", "));
}

NpyArray load(const std::string& path, const TensorOptions& options) {
  NpyArray array = to_bnhd(read_npy(path), parse_npy_layout(options.layout), path);
  for (const std::int64_t size : array.shape) {
    if (size < 1) {
      throw UsageError(fmt::format("{}: the shape {} holds nothing", path, shape_text(array)));
    }
  }
  return array;
}

void require_same(const std::string& path, const NpyArray& array, const std::string& other_path,
                  const NpyArray& other, std::size_t axis, const char* what) {
  if (array.shape.at(axis) == other.shape.at(axis)) return;
  throw UsageError(
      fmt::format("{} has {} {} where {} has {} (batch, rows, heads, head_dim: {} and {})", path,
                  array.shape[axis], what, other_path, other.shape[axis], shape_text(array),
                  shape_text(other)));
}

void require_dtype(const std::string& path, const NpyArray& array, const std::string& other_path,
                   Dtype dtype) {
  if (array.dtype == dtype) return;
  throw UsageError(fmt::format("{} is {} where {} is {}", path, to_string(array.dtype), other_path,
                               to_string(dtype)));
}

}  // namespace

HostTensors load_tensors(const TensorOptions& options) {
  HostTensors tensors;
  tensors.q = load(options.q, options);
  tensors.k = load(options.k, options);
  tensors.v = load(options.v, options);
  require_dtype(options.k, tensors.k, options.q, tensors.q.dtype);
  require_dtype(options.v, tensors.v, options.q, tensors.q.dtype);
  require_same(options.k, tensors.k, options.q, tensors.q, 0, "batches");
  require_same(options.k, tensors.k, options.q, tensors.q, 3, "head dimensions");
  require_same(options.v, tensors.v, options.k, tensors.k, 0, "batches");
  require_same(options.v, tensors.v, options.k, tensors.k, 1, "rows");
  require_same(options.v, tensors.v, options.k, tensors.k, 2, "heads");
  require_same(options.v, tensors.v, options.k, tensors.k, 3, "head dimensions");
  Problem& problem = tensors.problem;
  problem.batch = tensors.q.shape[0];
  problem.n_q = tensors.q.shape[1];
  problem.heads = tensors.q.shape[2];
  problem.head_dim = tensors.q.shape[3];
  problem.n_kv = tensors.k.shape[1];
  problem.kv_heads = tensors.k.shape[2];
  problem.dtype = tensors.q.dtype;
  problem.mask = options.mask;
  problem.scale = options.scale.value_or(default_scale(problem.head_dim));
  problem.validate();
  return tensors;
}

NpyArray load_output(const std::string& path, const TensorOptions& options,
                     const Problem& problem) {
  NpyArray out = load(path, options);
  require_dtype(path, out, options.q, problem.dtype);
  const std::vector<std::int64_t> wanted{problem.batch, problem.n_q, problem.heads,
                                         problem.head_dim};
  if (out.shape != wanted) {
    throw UsageError(fmt::format("{} has the shape {} where the output of {} has [{}]", path,
                                 shape_text(out), options.q, fmt::join(wanted, ", ")));
  }
  return out;
}

Tensor view(NpyArray& array) {
  return contiguous(array.data.data(), array.dtype, array.shape.at(0), array.shape.at(1),
                    array.shape.at(2), array.shape.at(3));
}

}  // namespace flashbench
