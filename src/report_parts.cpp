#include "report_parts.h"

#include <fmt/format.h>

#include "version.h"

namespace flashbench {
namespace {

Json worst(const WorstElement& worst) {
  Json out{{"batch", worst.row.batch},
           {"head", worst.row.head},
           {"row", worst.row.row},
           {"column", worst.column}};
  put(out, "got", worst.got);
  put(out, "want", worst.want);
  put(out, "bound", worst.bound);
  return out;
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Json tool_json() {
  return {{"name", "flashbench"},
          {"version", tool_version()},
          {"commit", tool_commit()},
          {"build_type", tool_build_type()}};
}

Json device_json(const DeviceInfo& info) {
  return {{"kind", to_string(info.kind)},
          {"name", info.name},
          {"uuid", or_null_if_empty(info.uuid)},
          {"memory_bytes", info.memory_bytes},
          {"l2_bytes", or_null_if_empty(info.l2_bytes)},
          {"sm_count", info.sm_count},
          {"compute_capability", or_null_if_empty(info.compute_capability)},
          {"shared_memory_per_block_bytes", or_null_if_empty(info.shared_memory_per_block)},
          {"max_clock_hz", or_null_if_empty(info.max_clock_hz)},
          {"memory_peak_bytes_per_s", or_null_if_empty(info.memory_peak_bytes_per_s)},
          {"ecc", info.kind == DeviceKind::cuda ? Json(info.ecc) : Json(nullptr)},
          {"driver", or_null_if_empty(info.driver)},
          {"runtime", or_null_if_empty(info.runtime)}};
}

Json problem_json(const Problem& problem) {
  return {{"batch", problem.batch},
          {"heads", problem.heads},
          {"kv_heads", problem.kv_heads},
          {"n_q", problem.n_q},
          {"n_kv", problem.n_kv},
          {"head_dim", problem.head_dim},
          {"dtype", to_string(problem.dtype)},
          {"mask", to_string(problem.mask)},
          {"scale", problem.scale}};
}

Json exactness_json(const std::optional<Exactness>& exactness) {
  if (!exactness) return nullptr;
  Json out{{"verdict", to_string(exactness->verdict)}, {"reason", or_null(exactness->reason)}};
  put(out, "bound_ratio", exactness->bound_ratio);
  put(out, "row_noise", exactness->row_noise);
  put(out, "row_noise_limit", exactness->row_noise_limit);
  put(out, "lse_bound_ratio", exactness->lse_bound_ratio);
  put(out, "max_abs", exactness->max_abs);
  put(out, "rel_frobenius", exactness->rel_frobenius);
  put(out, "max_ulp", exactness->max_ulp);
  out["worst"] = exactness->rows_checked > 0 ? worst(exactness->worst) : Json(nullptr);
  out["rows_checked"] = exactness->rows_checked;
  out["rows_total"] = exactness->rows_total;
  out["deterministic"] = or_null(exactness->deterministic);
  out["compared_with"] = or_null(exactness->compared_with);
  return out;
}

std::string lines_of(const Json& document, std::string_view list) {
  std::string text = "{\n";
  std::string_view separator;
  for (const auto& [name, value] : document.items()) {
    text += fmt::format("{}{}: ", separator, dump(name));
    separator = ",\n";
    if (name != list || value.empty()) {
      text += dump(value);
      continue;
    }
    std::string_view between = "[\n";
    for (const Json& element : value) {
      text += between;
      text += dump(element);
      between = ",\n";
    }
    text += "\n]";
  }
  return text + "\n}\n";
}

}  // namespace flashbench
