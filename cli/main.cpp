#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <variant>

#include "commands.h"
#include "error.h"
#include "options.h"
#include "terminal.h"

namespace {

constexpr int kUsage = 2;
constexpr int kFailed = 3;

int complain(const std::exception& error, int code) {
  fmt::print(stderr, "flashbench: {}\n", error.what());
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace flashbench;
  try {
    const Options options = parse_options(argc, argv);
    const int code = std::visit([](const auto& chosen) { return run(chosen); }, options);
    flush_output();
    return code;
  } catch (const UsageError& error) {
    return complain(error, kUsage);
  } catch (const std::exception& error) {
    return complain(error, kFailed);
  }
}
