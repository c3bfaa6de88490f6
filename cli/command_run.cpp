#include <fmt/format.h>

#include "admission.h"
#include "arena.h"
#include "commands.h"
#include "device_choice.h"
#include "error.h"
#include "tensors.h"
#include "workbench.h"

namespace flashbench {
namespace {

const Implementation& only_implementation(const RunOptions& options, const Problem& problem,
                                          const Backend& backend) {
  const std::vector<std::string> names =
      options.implementations.empty() ? std::vector<std::string>{"fused"} : options.implementations;
  check_implementation_names(names, backend.catalogue);
  const auto chosen =
      resolve_implementations(names, backend.catalogue, problem, backend.device->info());
  if (chosen.size() != 1) {
    throw UsageError(fmt::format("run takes one implementation; --impl gives {}", chosen.size()));
  }
  if (const auto reason = chosen.front()->unsupported(problem, backend.device->info())) {
    throw Error(fmt::format("{} does not support {}: {}", chosen.front()->name(),
                            problem.to_string(), *reason));
  }
  return *chosen.front();
}

void upload(Device& device, const Tensor& to, const NpyArray& from) {
  device.upload(to.data, from.data.data(), static_cast<std::int64_t>(from.data.size()));
}

/// Brings `bytes` of device memory home as an array.
NpyArray download(Device& device, const void* data, Dtype dtype, std::vector<std::int64_t> shape) {
  NpyArray array;
  array.dtype = dtype;
  array.shape = std::move(shape);
  array.data.resize(static_cast<std::size_t>(array.elements() * size_of(dtype)));
  device.download(array.data.data(), data, static_cast<std::int64_t>(array.data.size()));
  return array;
}

/// The order of axes that the files have.
NpyArray as_files(NpyArray array, const TensorOptions& options) {
  if (parse_npy_layout(options.layout) == NpyLayout::bnhd) return array;
  // Swapping rows and heads is its own inverse.
  const std::vector<std::int64_t> shape{array.shape[0], array.shape[2], array.shape[1],
                                        array.shape[3]};
  NpyArray swapped = to_bnhd(array, NpyLayout::bhnd, "the output");
  swapped.shape = shape;
  return swapped;
}

}  // namespace

int run(const RunOptions& options) {
  const HostTensors tensors = load_tensors(options.tensors);
  const Problem& problem = tensors.problem;
  Backend backend = open_backend(options.device);
  Device& device = *backend.device;
  const Implementation& implementation = only_implementation(options, problem, backend);

  Arena arena(device);
  Workbench bench(arena, device, problem, 1, implementation.workspace_bytes(problem, device.info()),
                  true);
  const Operands operands = bench.operands(0);
  upload(device, operands.q, tensors.q);
  upload(device, operands.k, tensors.k);
  upload(device, operands.v, tensors.v);
  bench.poison(0);
  const Plan plan = implementation.plan(problem, operands, bench.workspace(), device);
  plan.enqueue(device.stream());
  device.synchronize();

  write_npy(options.out,
            as_files(download(device, operands.o.data, problem.dtype,
                              {problem.batch, problem.n_q, problem.heads, problem.head_dim}),
                     options.tensors));
  if (options.lse) {
    write_npy(*options.lse, download(device, operands.lse, Dtype::f32,
                                     {problem.batch, problem.heads, problem.n_q}));
  }
  fmt::print("{} of {} on {}; written to {}{}\n", implementation.name(), problem.to_string(),
             device.info().name, options.out, options.lse ? " and " + *options.lse : "");
  return 0;
}

}  // namespace flashbench
