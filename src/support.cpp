#include "support.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace flashbench {
namespace {

Problem probe(Dtype dtype, std::int64_t head_dim) {
  Problem problem;
  problem.heads = 4;
  problem.kv_heads = 4;
  problem.n_q = 128;
  problem.n_kv = 128;
  problem.head_dim = head_dim;
  problem.dtype = dtype;
  problem.scale = default_scale(head_dim);
  return problem;
}

std::vector<std::int64_t> supported_head_dims(const Implementation& implementation,
                                              const DeviceInfo& device, Dtype dtype) {
  std::vector<std::int64_t> head_dims;
  for (std::int64_t d = 1; d <= kMostProbed; ++d) {
    if (!implementation.unsupported(probe(dtype, d), device)) head_dims.push_back(d);
  }
  return head_dims;
}

/// What is refused of a problem that is supported as it is.
std::vector<std::string> refusals(const Implementation& implementation, const DeviceInfo& device,
                                  const Problem& supported) {
  std::vector<std::string> lines;
  const auto ask = [&](std::string_view what, const Problem& problem) {
    if (const auto reason = implementation.unsupported(problem, device)) {
      lines.push_back(fmt::format("no {}: {}", what, *reason));
    }
  };
  Problem causal = supported;
  causal.mask = Mask::causal;
  ask("causal mask", causal);
  Problem grouped = supported;
  grouped.kv_heads = 2;
  ask("grouped heads", grouped);
  Problem rectangular = supported;
  rectangular.n_q = 17;
  ask("n_q other than n_kv", rectangular);
  Problem odd = supported;
  odd.n_q = odd.n_kv = 33;
  ask("lengths that are no multiple of a tile", odd);
  return lines;
}

}  // namespace

std::string describe_values(std::span<const std::int64_t> values) {
  if (values.empty()) return "none";
  constexpr std::size_t kFewestForRange = 4;
  if (values.size() >= kFewestForRange) {
    const std::int64_t step = values[1] - values[0];
    const auto other_gap = std::adjacent_find(values.begin(), values.end(),
                                              [&](auto a, auto b) { return b - a != step; });
    if (other_gap == values.end()) {
      const std::string range = fmt::format("{} to {}", values.front(), values.back());
      return step == 1 ? range : fmt::format("{} in steps of {}", range, step);
    }
  }
  return fmt::format("{}", fmt::join(values, ", "));
}

std::vector<std::string> describe_support(const Implementation& implementation,
                                          const DeviceInfo& device) {
  struct Group {
    std::vector<std::int64_t> head_dims;
    std::string dtypes;
  };
  std::vector<Group> groups;
  std::optional<Problem> supported;
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    const auto head_dims = supported_head_dims(implementation, device, dtype);
    if (head_dims.empty()) continue;
    if (!supported) supported = probe(dtype, head_dims.front());
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
      return group.head_dims == head_dims;
    });
    if (same == groups.end()) {
      groups.push_back({head_dims, std::string(to_string(dtype))});
    } else {
      same->dtypes += fmt::format(", {}", to_string(dtype));
    }
  }
  std::vector<std::string> lines;
  for (const Group& group : groups) {
    const bool all = group.head_dims.size() == static_cast<std::size_t>(kMostProbed);
    lines.push_back(
        all ? fmt::format("{}: any head dim", group.dtypes)
            : fmt::format("{}: head dim {}", group.dtypes, describe_values(group.head_dims)));
  }
  if (supported) {
    for (std::string& line : refusals(implementation, device, *supported)) {
      lines.push_back(std::move(line));
    }
  }
  return lines;
}

}  // namespace flashbench
