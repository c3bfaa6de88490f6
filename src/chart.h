#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "style.h"

namespace flashbench {

/// A point of a curve; both coordinates are positive and finite, others are left out.
struct ChartPoint {
  double x = 0;
  double y = 0;
};

struct ChartSeries {
  std::string name;
  std::string note;                ///< what the legend says beside the name
  std::vector<ChartPoint> points;  ///< in order of x, and joined unless the chart says otherwise
  std::vector<ChartPoint> unmet;   ///< what would have been needed: marked x, not joined
};

enum class ChartUnit : std::uint8_t { length, bytes, seconds, flops_per_s, flops_per_byte };

struct Chart {
  std::string title;
  ChartUnit x_unit = ChartUnit::length;
  ChartUnit unit = ChartUnit::seconds;  ///< of y
  std::vector<ChartSeries> series;
  bool joined = true;
  std::optional<double> limit;  ///< a horizontal line
  std::string limit_name;
  std::vector<ChartPoint> roof;  ///< a line under all series, always within the chart
  std::string roof_name;
};

/// Both axes logarithmic, a legend below. Ticks stand at round values; those of lengths at the
/// points' own. Depends on its arguments alone. Lines end in newlines, none is wider than
/// style.width (at least 40) where the title and the legend's texts allow. Empty where no series
/// has a point.
std::string draw(const Chart& chart, const Style& style);

}  // namespace flashbench
