#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace flashbench {

/// An SM's cycles over the time that they took.
struct ClockReading {
  std::uint64_t cycles;
  std::uint64_t nanoseconds;
};

/// In mapped host memory, shared by the host and the gate. See CudaDevice::time().
struct GatePage {
  std::uint32_t open;       ///< host: the ticket whose work has been queued
  std::uint32_t timed_out;  ///< device: the gate gave up before it was opened
  ClockReading before;      ///< device: the clock just before the work
  ClockReading after;       ///< device: just after it
};

/// Holds the stream until `page->open` is `ticket`, for at least kLeastProbe and at most
/// kLongestGate, and measures the SM clock meanwhile. A gate that waits in vain (the enqueueing
/// call waits for the stream itself, or launches are synchronous under a tool) lets go, so that
/// nothing can deadlock.
void launch_gate(GatePage* page, std::uint32_t ticket, cudaStream_t stream);
/// Measures the SM clock for kLeastProbe into page->after.
void launch_clock_probe(GatePage* page, cudaStream_t stream);

inline constexpr std::uint64_t kLeastProbeNanoseconds = 30'000;
inline constexpr std::uint64_t kLongestGateNanoseconds = 20'000'000;

/// Reads `bytes` (a multiple of 16) of `data` once, with the cache's ordinary policy, and writes
/// nothing: afterwards the last-level cache holds clean lines of `data` if that is larger than it.
/// `sink`: 4 bytes that are written only if the sum of all words is a number that it is not.
void launch_read(const void* data, std::size_t bytes, std::uint32_t* sink, cudaStream_t stream);

/// One block that does nothing.
void launch_nothing(cudaStream_t stream);

}  // namespace flashbench
