#pragma once

#include <string_view>

namespace flashbench {

/// Of this build, for the record. cmake/version.cmake writes the definitions.
std::string_view tool_version();  ///< "0.1.0"
std::string_view
tool_commit();  ///< full hash, "-dirty" where the sources differ from it; "unknown" without git
std::string_view tool_build_type();  ///< "Release"

}  // namespace flashbench
