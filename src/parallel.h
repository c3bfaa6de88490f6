#pragma once

#include <cstdint>
#include <functional>

namespace flashbench {

/// Threads that CPU work uses: the cores this process may run on (its affinity mask).
int cpu_threads();

/// Calls body(i) once for each i in [0, count) on cpu_threads() threads, in no order; items are
/// handed out one at a time, so uneven items balance. The first exception thrown is rethrown after
/// all have ended.
void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& body);

}  // namespace flashbench
