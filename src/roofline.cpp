#include "roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "chart.h"
#include "reference_text.h"
#include "report.h"
#include "track.h"

namespace flashbench {
namespace {

struct Roofs {
  double bytes_per_s = 0;
  double flops_per_s = 0;
};

/// The unit that multiplies in these cells, by the first model that names one.
MatrixUnit unit_of(const std::vector<Track>& tracks) {
  for (const Track& track : tracks) {
    for (const Cell* cell : track.cells) {
      for (const StepResult& step : cell->steps) {
        if (step.model && step.model->unit != MatrixUnit::none) return step.model->unit;
      }
    }
  }
  return MatrixUnit::none;
}

std::optional<Roofs> roofs_of(const Run& run, const std::vector<Track>& tracks) {
  if (!run.references) return std::nullopt;
  constexpr double kReadsAlone = 1;
  const auto bandwidth = run.references->bandwidth(kReadsAlone, 0);
  const auto rate = run.references->matrix_rate(unit_of(tracks));
  if (!bandwidth || !rate) return std::nullopt;
  return Roofs{*bandwidth, *rate};
}

bool shown(const Cell& cell) {
  return flops_per_s(cell) && !cell.time->too_short &&
         hbm_bytes(cell).value_or(HbmBytes{}).bytes > 0;
}

std::vector<ChartSeries> series_of(const Track& track) {
  std::vector<ChartSeries> all{{.name = track.name, .note = "", .points = {}, .unmet = {}}};
  for (const Cell* cell : track.cells) {
    if (!shown(*cell)) continue;
    all.front().points.push_back(
        {cell->problem.flops() / hbm_bytes(*cell)->bytes, *flops_per_s(*cell)});
    if (cell->steps.size() < 2) continue;
    for (const StepResult& step : cell->steps) {
      if (!step.bound || !step.bound->intensity || !step.bound->matrix_flops_per_s) continue;
      const std::string name = fmt::format("{}: {}", track.name, step.name);
      auto series = std::ranges::find(all, name, &ChartSeries::name);
      if (series == all.end()) {
        all.push_back({.name = name, .note = "as executed", .points = {}, .unmet = {}});
        series = all.end() - 1;
      }
      series->points.push_back({*step.bound->intensity, *step.bound->matrix_flops_per_s});
    }
  }
  return all;
}

/// Both roofs as one line over a factor of two beyond the points on either side.
std::vector<ChartPoint> roof_line(const Roofs& roofs, const std::vector<ChartSeries>& all) {
  const double knee = roofs.flops_per_s / roofs.bytes_per_s;
  double low = knee;
  double high = knee;
  for (const ChartSeries& series : all) {
    for (const ChartPoint& point : series.points) {
      low = std::min(low, point.x);
      high = std::max(high, point.x);
    }
  }
  constexpr double kBeyond = 2;
  low /= kBeyond;
  return {{low, low * roofs.bytes_per_s},
          {knee, roofs.flops_per_s},
          {high * kBeyond, roofs.flops_per_s}};
}

/// What bounds a step, and the share of that resource's reference that it reaches.
std::pair<std::string, std::optional<double>> limit_of(const StepBound& bound) {
  switch (bound.bound_by) {
    case Bound::hbm: return {"memory's roof", bound.hbm_fraction};
    case Bound::tensor:
    case Bound::fp32: return {"matrix roof", bound.matrix_fraction};
    case Bound::exp: return {"exponentials' rate", bound.exp_fraction};
    case Bound::latency: break;
  }
  return {"latency", std::nullopt};
}

/// "naive at N = 16k, of the memory's roof: QKT 70 %, softmax 95 %; of the matrix roof: PV 101 %".
std::string reached(const Track& track) {
  const auto last = std::find_if(track.cells.rbegin(), track.cells.rend(),
                                 [](const Cell* cell) { return shown(*cell) && cell->bound; });
  if (last == track.cells.rend()) return "";
  std::vector<std::pair<std::string, std::string>> limits;
  for (const StepResult& step : (*last)->steps) {
    const auto [limit, share] = limit_of(*step.bound);
    const std::string text =
        share ? fmt::format("{} {:.0f} %", step.name, 100 * *share) : step.name;
    const auto known =
        std::ranges::find(limits, limit, &std::pair<std::string, std::string>::first);
    if (known == limits.end()) {
      limits.emplace_back(limit, text);
    } else {
      known->second += ", " + text;
    }
  }
  std::string text = fmt::format("  {} at N = {}", track.name, length_label((*last)->problem));
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const auto& [limit, steps] = limits[i];
    text += fmt::format("{} {} {}: {}", i == 0 ? "," : ";",
                        limit == "latency" ? "bound by" : "of the", limit, steps);
  }
  return text + "\n";
}

}  // namespace

std::string roofline(const Run& run, const Section& section, const Style& style) {
  const std::vector<Track> tracks = tracks_of(run, section);
  const std::optional<Roofs> roofs = roofs_of(run, tracks);
  if (!roofs) return "";
  Chart chart;
  chart.x_unit = ChartUnit::flops_per_byte;
  chart.unit = ChartUnit::flops_per_s;
  chart.joined = false;
  bool modelled = false;
  std::string words;
  for (const Track& track : tracks) {
    for (ChartSeries& series : series_of(track)) {
      if (!series.points.empty()) chart.series.push_back(std::move(series));
    }
    modelled = modelled || std::ranges::any_of(track.cells, [](const Cell* cell) {
                 return shown(*cell) && !hbm_bytes(*cell)->measured;
               });
    words += reached(track);
  }
  chart.title =
      fmt::format("Roofline, {}, bytes {}", section.title, modelled ? "modelled" : "counted");
  chart.roof = roof_line(*roofs, chart.series);
  chart.roof_name =
      fmt::format("this run's references: {}, {}", format_rate(Reference::read, roofs->bytes_per_s),
                  format_rate(Reference::fma_f32, roofs->flops_per_s));
  const std::string drawn = draw(chart, style);
  return drawn.empty() ? "" : drawn + words;
}

}  // namespace flashbench
