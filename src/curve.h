#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "cell.h"
#include "chart.h"
#include "style.h"

namespace flashbench {

/// y = constant * x^exponent.
struct Growth {
  double exponent = 0;
  double x_low = 0;  ///< the points that it was fitted to
  double x_high = 0;
  std::size_t points = 0;
};

/// The least-squares line through the logarithms of the points in the upper half of the x range (by
/// logarithm), where growth has left the fixed costs behind, but of at least the three largest.
/// Nothing for fewer than two usable points. `points`: in order of x.
std::optional<Growth> fit_growth(std::span<const ChartPoint> points);

/// For each section of a run: with at least two lengths peak memory and time against N, and in
/// words what these show (growth exponents and where the naive one stopped fitting); then its
/// roofline. Empty where nothing can be drawn.
std::string curves(const Run& run, const Style& style);

}  // namespace flashbench
