#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace flashbench {

/// The arguments after the program's name, checked against what `app` and its subcommands declare,
/// each option in the one form "--name=value" that cannot be misread: "--n -5" has the value "-5"
/// and no option follows from it. Throws UsageError for unknown commands and options (with the
/// nearest known one), for missing, empty and needless values, options given twice and stray
/// arguments.
std::vector<std::string> canonical_arguments(const CLI::App& app,
                                             const std::vector<std::string>& arguments);

}  // namespace flashbench
