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
  try {
    const flashbench::Options options = flashbench::parse_options(argc, argv);
    const int code =
        std::visit([](const auto& chosen) { return flashbench::run(chosen); }, options);
    flashbench::flush_output();
    return code;
  } catch (const flashbench::UsageError& error) {
    return complain(error, kUsage);
  } catch (const std::exception& error) {
    return complain(error, kFailed);
  }
}
