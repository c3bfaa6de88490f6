#include "curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "roofline.h"
#include "section.h"
#include "track.h"
#include "units.h"

namespace flashbench {
namespace {

/// The length that a section's problems differ in, or nothing where it is not one.
std::optional<std::int64_t Problem::*> length_axis(const Section& section) {
  for (const auto axis : {&Problem::n_q, &Problem::n_kv}) {
    std::set<std::int64_t> values;
    for (const Problem& problem : section.problems) values.insert(problem.*axis);
    if (values.size() == section.problems.size()) return axis;
  }
  return std::nullopt;
}

/// What is drawn of a section, each track in order of length.
std::vector<Track> tracks_along(const Run& run, const Section& section,
                                std::int64_t Problem::* axis) {
  std::vector<Track> tracks = tracks_of(run, section);
  for (Track& track : tracks) {
    std::stable_sort(track.cells.begin(), track.cells.end(), [&](const Cell* a, const Cell* b) {
      return a->problem.*axis < b->problem.*axis;
    });
  }
  return tracks;
}

/// Points of the cells that ended well and have the figure.
template <typename Figure>
std::vector<ChartPoint> points_of(const Track& track, std::int64_t Problem::* axis,
                                  const Figure& figure) {
  std::vector<ChartPoint> points;
  for (const Cell* cell : track.cells) {
    if (cell->status != Status::ok) continue;
    const std::optional<double> value = figure(*cell);
    if (value) points.push_back({static_cast<double>(cell->problem.*axis), *value});
  }
  return points;
}

std::optional<double> peak(const Cell& cell) {
  return static_cast<double>(cell.memory.peak_bytes);
}
std::optional<double> workspace(const Cell& cell) {
  return static_cast<double>(cell.memory.workspace_bytes);
}
std::optional<double> median(const Cell& cell) {
  return cell.time ? std::optional(cell.time->median_s) : std::nullopt;
}
std::optional<double> trusted_median(const Cell& cell) {
  return cell.time && !cell.time->too_short ? std::optional(cell.time->median_s) : std::nullopt;
}

std::vector<ChartPoint> unmet_of(const Track& track, std::int64_t Problem::* axis) {
  std::vector<ChartPoint> points;
  for (const Cell* cell : track.cells) {
    if (cell->status == Status::out_of_memory) {
      points.push_back(
          {static_cast<double>(cell->problem.*axis), static_cast<double>(cell->memory.peak_bytes)});
    }
  }
  return points;
}

std::string growth_text(std::span<const ChartPoint> points) {
  const std::optional<Growth> growth = fit_growth(points);
  if (!growth) return "";
  return fmt::format("grows as N^{:.2f} (N = {} to {})", growth->exponent,
                     format_length(static_cast<std::int64_t>(growth->x_low)),
                     format_length(static_cast<std::int64_t>(growth->x_high)));
}

std::string workspace_text(const Track& track, std::int64_t Problem::* axis) {
  const auto points = points_of(track, axis, workspace);
  const bool none = std::all_of(points.begin(), points.end(),
                                [](const ChartPoint& point) { return point.y == 0; });
  if (points.empty()) return "";
  if (none) return "no workspace";
  const std::optional<Growth> growth = fit_growth(points);
  return growth ? fmt::format("workspace as N^{:.2f}", growth->exponent) : "";
}

/// Where an implementation stopped fitting, and how far the others went on.
std::string memory_wall(const std::vector<Track>& tracks, std::int64_t Problem::* axis) {
  std::string text;
  for (const Track& track : tracks) {
    const auto wall = std::find_if(track.cells.begin(), track.cells.end(), [](const Cell* cell) {
      return cell->status == Status::out_of_memory;
    });
    if (wall == track.cells.end()) continue;
    const MemoryFigures& memory = (*wall)->memory;
    text += fmt::format("  {} stopped fitting at N = {}: it needs {}, {} are free", track.name,
                        format_length((*wall)->problem.*axis),
                        format_bytes(static_cast<double>(memory.needed_bytes)),
                        format_bytes(static_cast<double>(memory.free_bytes)));
    for (const Track& other : tracks) {
      const auto points = points_of(other, axis, peak);
      if (points.empty() || points.back().x < static_cast<double>((*wall)->problem.*axis)) continue;
      text += fmt::format("; {} takes {} at N = {}", other.name, format_bytes(points.back().y),
                          format_length(static_cast<std::int64_t>(points.back().x)));
    }
    text += "\n";
  }
  return text;
}

std::string join(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : a + ", " + b;
}

std::string section_curves(const Run& run, const Section& section, const Style& style) {
  const auto axis = length_axis(section);
  if (!axis || section.problems.size() < 2) return "";
  const std::vector<Track> tracks = tracks_along(run, section, *axis);

  Chart memory;
  memory.title = "Peak memory against N, " + section.title;
  memory.unit = ChartUnit::bytes;
  Chart time;
  time.title = "Time against N, " + section.title;
  time.unit = ChartUnit::seconds;
  bool unmet = false;
  for (const Track& track : tracks) {
    const auto peaks = points_of(track, *axis, peak);
    memory.series.push_back({.name = track.name,
                             .note = join(growth_text(peaks), workspace_text(track, *axis)),
                             .points = peaks,
                             .unmet = unmet_of(track, *axis)});
    unmet = unmet || !memory.series.back().unmet.empty();
    time.series.push_back({.name = track.name,
                           .note = growth_text(points_of(track, *axis, trusted_median)),
                           .points = points_of(track, *axis, median),
                           .unmet = {}});
  }
  if (unmet) {
    memory.limit = static_cast<double>(run.device.memory_bytes);
    memory.limit_name = "memory of the device";
  }
  const std::string drawn = draw(memory, style);
  if (drawn.empty()) return "";
  const std::string timed = draw(time, style);
  return drawn + memory_wall(tracks, *axis) + (timed.empty() ? "" : "\n" + timed);
}

}  // namespace

std::optional<Growth> fit_growth(std::span<const ChartPoint> points) {
  std::vector<ChartPoint> usable;
  for (const ChartPoint& point : points) {
    if (point.x > 0 && point.y > 0 && std::isfinite(point.y)) usable.push_back(point);
  }
  if (usable.size() < 2 || !(usable.back().x > usable.front().x)) return std::nullopt;
  const double middle = std::sqrt(usable.front().x * usable.back().x);
  constexpr std::size_t kFewest = 3;
  while (usable.size() > kFewest && usable.front().x < middle) usable.erase(usable.begin());

  double mean_x = 0;
  double mean_y = 0;
  const auto n = static_cast<double>(usable.size());
  for (const ChartPoint& point : usable) {
    mean_x += std::log(point.x) / n;
    mean_y += std::log(point.y) / n;
  }
  double covariance = 0;
  double variance = 0;
  for (const ChartPoint& point : usable) {
    covariance += (std::log(point.x) - mean_x) * (std::log(point.y) - mean_y);
    variance += (std::log(point.x) - mean_x) * (std::log(point.x) - mean_x);
  }
  if (!(variance > 0)) return std::nullopt;
  return Growth{covariance / variance, usable.front().x, usable.back().x, usable.size()};
}

std::string curves(const Run& run, const Style& style) {
  std::vector<Problem> problems;
  for (const Cell& cell : run.cells) problems.push_back(cell.problem);
  std::string text;
  for (const Section& section : split_sections(problems)) {
    for (const std::string& part :
         {section_curves(run, section, style), roofline(run, section, style)}) {
      if (!part.empty() && !text.empty()) text += "\n";
      text += part;
    }
  }
  return text;
}

}  // namespace flashbench
