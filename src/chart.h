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
  std::vector<ChartPoint> points;  ///< in order of x
  std::vector<ChartPoint> unmet;   ///< what would have been needed: marked x, not joined
};

enum class ChartUnit : std::uint8_t { bytes, seconds };

struct Chart {
  std::string title;
  ChartUnit unit = ChartUnit::seconds;
  std::vector<ChartSeries> series;
  std::optional<double> limit;  ///< a horizontal line
  std::string limit_name;
};

/// Both axes logarithmic, ticks on x at the points' own values, a legend below. Depends on its
/// arguments alone. Lines end in newlines, none is wider than style.width (at least 40) where the
/// legend's texts allow. Empty where there is no point.
std::string draw(const Chart& chart, const Style& style);

}  // namespace flashbench
