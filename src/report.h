#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cell.h"

namespace flashbench {

inline constexpr int kSchemaVersion = 1;

/// The document of a run, as results/schema/run.schema.json describes it: seconds and bytes,
/// integers exact in 64 bits. A number that does not exist is null; one that is not finite is null
/// with what it was beside it, under the same name with "_reason" appended.
nlohmann::ordered_json to_json(const Run& run);
nlohmann::ordered_json to_json(const Cell& cell);
nlohmann::ordered_json to_json(const References& references);

/// The same as text, a line for each member and each cell, so that files can be compared and
/// searched line by line. The bytes depend on the run alone. Text that is not UTF-8 (a command line
/// may hold any bytes) has its bad bytes replaced by U+FFFD.
std::string to_document(const Run& run);

/// Bytes that a cell's plan moves to and from HBM: by the counters where they were read, else by
/// the model; nothing where neither covers every step.
struct HbmBytes {
  double bytes = 0;
  bool measured = false;
};
std::optional<HbmBytes> hbm_bytes(const Cell& cell);

/// Algorithmic operations per second. Nothing for a result that is not right, and nothing that the
/// device cannot have reached.
std::optional<double> flops_per_s(const Cell& cell);

/// Why the cell's rates cannot be true, step by step; empty where they can.
std::vector<std::string> impossibilities(const Cell& cell);

}  // namespace flashbench
