#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device.h"
#include "self_test.h"

namespace flashbench {

/// How a self-test was run.
struct SelfTestSettings {
  std::vector<std::string> command;
  std::string started_utc;  ///< ISO 8601
  std::uint64_t seed = 0;
  SelfTestExtent extent = SelfTestExtent::until_killed;
  DeviceInfo device;
};

/// The document of a self-test, as results/schema/self-test.schema.json describes it.
std::string to_document(const SelfTest& result, const SelfTestSettings& settings);

}  // namespace flashbench
