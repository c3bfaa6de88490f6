#pragma once

#include <cstdint>
#include <functional>

namespace flashbench {

/// Threads that CPU work uses: the cores this process may run on (its affinity mask), or fewer
/// where a control group grants less time than that; at least 1. Read once.
int cpu_threads();

/// Calls body(i) once for each i in [0, count) on up to cpu_threads() threads, in no order; items
/// are handed out one at a time, so uneven items balance. The first exception thrown is rethrown
/// after all have ended; items not begun by then are left out. A call from inside a body, or while
/// another thread's call runs, does all its items on the calling thread.
void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& body);

}  // namespace flashbench
