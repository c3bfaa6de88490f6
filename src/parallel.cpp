#include "parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "host_limits.h"

namespace flashbench {
namespace {

/// One parallel_for: shared by the threads that work on it.
class Job {
 public:
  Job(std::int64_t count, const std::function<void(std::int64_t)>& body)
      : count_(count), body_(&body) {}

  void work() noexcept {
    try {
      for (std::int64_t i = next_++; i < count_; i = next_++) (*body_)(i);
    } catch (...) {
      next_ = count_;
      const std::scoped_lock lock(failure_mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
  }

  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::int64_t count_;
  const std::function<void(std::int64_t)>* body_;
  std::atomic<std::int64_t> next_{0};
  std::exception_ptr failure_;
  std::mutex failure_mutex_;
};

/// Threads that wait for work: starting them anew for each call would cost more than a short
/// attention does.
class Pool {
 public:
  explicit Pool(int helpers) {
    for (int i = 0; i < helpers; ++i) std::thread([this] { serve(); }).detach();
  }

  /// The caller works too and then waits only for helpers that have begun, never for one that still
  /// sleeps.
  void run(Job& job) {
    {
      const std::scoped_lock lock(mutex_);
      job_ = &job;
      ++generation_;
    }
    wake_.notify_all();
    job.work();
    std::unique_lock lock(mutex_);
    job_ = nullptr;
    idle_.wait(lock, [this] { return active_ == 0; });
  }

 private:
  void serve() {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return job_ != nullptr && generation_ != seen; });
      seen = generation_;
      Job* job = job_;
      ++active_;
      lock.unlock();
      job->work();
      lock.lock();
      if (--active_ == 0) idle_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  Job* job_ = nullptr;
  std::uint64_t generation_ = 0;
  int active_ = 0;
};

}  // namespace

int cpu_threads() {
  static const int count = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    int cores = static_cast<int>(std::thread::hardware_concurrency());
    if (sched_getaffinity(0, sizeof(set), &set) == 0) cores = CPU_COUNT(&set);
    if (const auto quota = cpu_quota())
      cores = std::min(cores, static_cast<int>(std::ceil(*quota)));
    return std::max(1, cores);
  }();
  return count;
}

void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& body) {
  static std::mutex busy;
  thread_local bool inside = false;
  Job job(count, body);
  if (count > 1 && !inside && cpu_threads() > 1) {
    if (const std::unique_lock lock(busy, std::try_to_lock); lock.owns_lock()) {
      // Never destroyed: its threads sleep until the process ends, whatever ends it.
      static Pool& pool = *new Pool(cpu_threads() - 1);
      inside = true;
      pool.run(job);
      inside = false;
      job.rethrow();
      return;
    }
  }
  job.work();
  job.rethrow();
}

}  // namespace flashbench
