#pragma once

#include <cstdint>

#include "device.h"
#include "problem.h"

namespace flashbench {

/// The HBM model of the CPU implementations. "HBM" is the memory behind the last-level cache
/// (DeviceInfo::l2_bytes). The cache is taken to keep what was used last, whole arrays at a time:
/// an array that fits it is read from memory once and, if only a later step needs it, never written
/// there; of one that does not fit, every pass moves every byte. Lines fetched only because a store
/// touches them are not counted.

/// Bytes read in `passes` passes over arrays of `total` bytes, of which one pass reads
/// `working_set` bytes before it starts over.
inline std::int64_t reread_bytes(std::int64_t total, std::int64_t working_set, std::int64_t passes,
                                 const DeviceInfo& device) {
  return working_set <= device.l2_bytes ? total : checked_multiply(total, passes);
}

/// Bytes that an array of `bytes` which one step hands to the next costs in each direction.
inline std::int64_t handed_on_bytes(std::int64_t bytes, const DeviceInfo& device) {
  return bytes <= device.l2_bytes ? 0 : bytes;
}

}  // namespace flashbench
