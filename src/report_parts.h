#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "device.h"
#include "exactness.h"
#include "json_values.h"
#include "problem.h"

namespace flashbench {

/// What the documents of several commands hold, as results/schema/ describes it.
Json tool_json();
Json device_json(const DeviceInfo& info);
Json problem_json(const Problem& problem);
Json exactness_json(const std::optional<Exactness>& exactness);

/// A document as text, a line for each member, and for each element of the member `list`. Bytes
/// that are not UTF-8 become U+FFFD.
std::string lines_of(const Json& document, std::string_view list);

}  // namespace flashbench
