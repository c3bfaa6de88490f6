#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cell.h"
#include "device.h"
#include "statistics.h"

namespace flashbench {

struct SamplingSettings {
  CacheState cache = CacheState::cold;
  Load load = Load::burst;
  StoppingSettings stopping;  ///< time_limit_s is that of one plan: n plans share n times as much
  double hold_s = 1.0;        ///< sustained: how long a plan runs before its samples are taken
  double burst_duty = 0.25;   ///< burst: share of the time that samples may take, the rest is idle
  double burst_rest_s = 0.1;  ///< burst: longest rest after a sample
};

/// How the settings of a run ask for samples.
SamplingSettings sampling_settings(const Settings& settings);

/// Times several plans on one device, sample by sample in turn, so that drift hits all alike and
/// the i-th samples of any two are a pair for paired_ratio(). Each round starts with another plan.
/// Every plan has run at least once before (compiled, loaded, its memory touched).
///
/// burst: one launch a sample, followed by a rest in proportion to its length, so that the card
/// stays under its power limit and at its full clock. sustained: each plan is run back to back for
/// hold_s, then sampled in a block without rest, plan after plan, block after block.
///
/// Ends when every plan has reached the precision, at max_samples, after time_limit_s times the
/// number of plans, or after the sample in hand once `stop` is set; at least one round is taken
/// unless stopped. Returns one entry a plan, in order; an entry without samples has samples_s
/// empty. Throws what Device::time() throws.
std::vector<TimeStats> sample_interleaved(Device& device, std::span<const Enqueue> plans,
                                          const SamplingSettings& settings,
                                          const std::atomic<bool>& stop);

/// The ratio of two entries of one sample_interleaved() call: numerator's time over denominator's.
/// So time_ratio(naive, fused) is above 1 where fused is faster. Nothing without a pair.
std::optional<Ratio> time_ratio(const TimeStats& numerator, const TimeStats& denominator,
                                double confidence = 0.95);

/// An A/A run: the plan sampled against itself. Nothing where it was stopped before a pair.
std::optional<NoiseFloor> measure_noise_floor(Device& device, const Enqueue& plan,
                                              const SamplingSettings& settings,
                                              const std::atomic<bool>& stop);

}  // namespace flashbench
