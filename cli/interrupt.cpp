#include "interrupt.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>

namespace flashbench {
namespace {

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free, "set in a signal handler");

constexpr std::array kSignals{SIGINT, SIGTERM};

void on_signal(int /*signal*/) {
  const int kept = errno;
  interrupted = true;
  for (const int signal : kSignals) std::signal(signal, SIG_DFL);
  constexpr std::string_view kMessage =
      "\nflashbench: interrupted: finishing the cell in hand; once more to quit at once\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
  errno = kept;
}

}  // namespace

const std::atomic<bool>& catch_interrupts() {
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (const int signal : kSignals) ::sigaction(signal, &action, nullptr);
  return interrupted;
}

}  // namespace flashbench
