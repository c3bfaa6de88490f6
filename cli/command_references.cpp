#include <fmt/format.h>

#include <vector>

#include "commands.h"
#include "device_choice.h"
#include "device_text.h"
#include "error.h"
#include "interrupt.h"
#include "reference_text.h"
#include "units.h"

namespace flashbench {
namespace {

constexpr double kBudgetSeconds = 0.5;  // of sampling, a reference

}  // namespace

int run(const ReferencesOptions& options) {
  Backend backend = open_backend(options.device);
  if (!backend.open_references) throw Error("this device has no reference works");
  const std::vector<Dtype> dtypes = options.dtype.empty()
                                        ? std::vector<Dtype>{Dtype::f32, Dtype::f16, Dtype::bf16}
                                        : options.dtype;
  fmt::print("{}\n{} load\n\n", describe(backend.device->info()), to_string(options.load));
  const auto bench = backend.open_references(*backend.device, dtypes);
  const References references =
      measure_references(*backend.device, *bench, options.load, kBudgetSeconds, catch_interrupts());
  for (const auto& [reference, rate] : references.rates) {
    const std::string clock =
        rate.sm_clock_hz ? fmt::format(" at {:.0f} MHz", *rate.sm_clock_hz / 1e6) : "";
    fmt::print("{:<22}{:>14}   ({} to {}){}\n", name_of(reference),
               format_rate(reference, rate.rate), format_rate(reference, rate.low),
               format_rate(reference, rate.high), clock);
  }
  fmt::print("\n{}\n", describe(references));
  return catch_interrupts() ? 130 : 0;
}

}  // namespace flashbench
