#include "references.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sampling.h"

namespace flashbench {

std::string_view to_string(Reference reference) {
  switch (reference) {
    case Reference::copy: return "copy";
    case Reference::read: return "read";
    case Reference::write: return "write";
    case Reference::matrix_f32: return "matrix_f32";
    case Reference::matrix_tf32: return "matrix_tf32";
    case Reference::matrix_f16: return "matrix_f16";
    case Reference::matrix_bf16: return "matrix_bf16";
    case Reference::fma_f32: return "fma_f32";
    case Reference::exp2: return "exp2";
  }
  return "?";
}

std::string_view unit(Reference reference) {
  switch (reference) {
    case Reference::copy:
    case Reference::read:
    case Reference::write: return "bytes_per_s";
    case Reference::exp2: return "exps_per_s";
    default: return "flops_per_s";
  }
}

std::optional<Reference> matrix_reference(MatrixUnit unit) {
  switch (unit) {
    case MatrixUnit::none: return std::nullopt;
    case MatrixUnit::fma_f32: return Reference::fma_f32;
    case MatrixUnit::tensor_f16: return Reference::matrix_f16;
    case MatrixUnit::tensor_bf16: return Reference::matrix_bf16;
    case MatrixUnit::tensor_tf32: return Reference::matrix_tf32;
  }
  return std::nullopt;
}

std::optional<double> References::rate(Reference reference) const {
  const auto found = rates.find(reference);
  if (found == rates.end() || !(found->second.rate > 0)) return std::nullopt;
  return found->second.rate;
}

std::optional<double> References::bandwidth(double read_bytes, double write_bytes) const {
  const auto mixed = rate(Reference::copy);
  if (!mixed) return std::nullopt;
  const double total = read_bytes + write_bytes;
  if (!(total > 0)) return mixed;
  const double written = write_bytes / total;
  const double end = rate(written < 0.5 ? Reference::read : Reference::write).value_or(*mixed);
  const double towards_end = std::abs(written - 0.5) / 0.5;
  return 1 / (towards_end / end + (1 - towards_end) / *mixed);
}

std::optional<double> References::matrix_rate(MatrixUnit unit) const {
  const auto reference = matrix_reference(unit);
  if (!reference) return std::nullopt;
  const auto known = rate(*reference);
  return known || unit != MatrixUnit::fma_f32 ? known : rate(Reference::matrix_f32);
}

double References::drift() const {
  double worst = 0;
  for (const auto& [reference, rate] : rates) {
    if (rate.history.size() < 2) continue;
    const auto [least, most] = std::minmax_element(rate.history.begin(), rate.history.end());
    worst = std::max(worst, *most / *least - 1);
  }
  return worst;
}

void References::add(const References& later) {
  for (const auto& [reference, rate] : later.rates) {
    ReferenceRate& mine = rates[reference];
    std::vector<double> history = std::move(mine.history);
    history.insert(history.end(), rate.history.begin(), rate.history.end());
    mine = rate;
    mine.history = std::move(history);
  }
}

References measure_references(Device& device, const ReferenceBench& bench, Load load,
                              double budget_s, const std::atomic<bool>& stop) {
  std::vector<Enqueue> plans;
  for (const ReferenceWork& work : bench.works()) {
    work.work(device.stream());  // loads modules, makes pages
    device.synchronize();
    plans.push_back(work.work);
  }
  SamplingSettings settings;
  settings.load = load;
  settings.stopping = {
      .precision = 0.002, .min_samples = 7, .max_samples = 50, .time_limit_s = budget_s};
  const std::vector<TimeStats> times = sample_interleaved(device, plans, settings, stop);
  References references;
  references.load = load;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i].samples_s.empty() || !(times[i].ci_low_s > 0)) continue;
    const ReferenceWork& work = bench.works()[i];
    const double rate = work.amount / times[i].median_s;
    references.rates[work.what] = {rate,
                                   work.amount / times[i].ci_high_s,
                                   work.amount / times[i].ci_low_s,
                                   times[i].sm_clock_hz,
                                   {rate}};
  }
  return references;
}

}  // namespace flashbench
