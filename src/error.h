#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace flashbench {

/// Anything flashbench reports to a person. The message is one line that can be acted on. Exit
/// code 3.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Bad input: the message names the offending token and what is accepted. Exit code 2.
struct UsageError : Error {
  using Error::Error;
};

/// An allocation that the device refused. The device stays usable.
struct OutOfMemory : Error {
  OutOfMemory(const std::string& message, std::int64_t needed, std::int64_t free)
      : Error(message), needed_bytes(needed), free_bytes(free) {}
  std::int64_t needed_bytes;
  std::int64_t free_bytes;
};

/// A fault after which the device answers nothing more in this process (a CUDA sticky error).
struct DeviceLost : Error {
  using Error::Error;
};

}  // namespace flashbench
