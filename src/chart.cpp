#include "chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>

#include "units.h"

namespace flashbench {
namespace {

constexpr int kRows = 14;

/// Glyphs of one style. Markers tell series apart without colour.
struct Glyphs {
  std::array<std::string_view, 6> markers;
  std::string_view unmet, limit, roof, vertical, tick_left, horizontal, tick_down, corner;
};

constexpr Glyphs kUnicode{{"●", "○", "▲", "◆", "■", "□"}, "×", "┄", "⠒", "│", "┤", "─", "┬", "└"};
constexpr Glyphs kAscii{{"*", "o", "+", "#", "@", "%"}, "x", "-", ".", "|", "+", "-", "+", "+"};
constexpr std::array<Ink, 6> kInks{Ink::red,     Ink::green,  Ink::cyan,
                                   Ink::magenta, Ink::yellow, Ink::blue};

/// Maps [low, high] on a logarithmic scale to [0, 1].
struct LogScale {
  double low = 1;
  double high = 10;
  double operator()(double value) const {
    return (std::log(value) - std::log(low)) / (std::log(high) - std::log(low));
  }
};

bool drawable(const ChartPoint& point) {
  return point.x > 0 && point.y > 0 && std::isfinite(point.x) && std::isfinite(point.y);
}

std::vector<ChartPoint> drawable(const std::vector<ChartPoint>& points) {
  std::vector<ChartPoint> kept;
  for (const ChartPoint& point : points) {
    if (drawable(point)) kept.push_back(point);
  }
  return kept;
}

/// base^(step * k) times each digit, from at most `low` to at least twice `high`.
std::vector<double> round_values(double low, double high, double base, int step,
                                 std::initializer_list<double> digits) {
  const double stride = std::pow(base, step);
  std::vector<double> values;
  for (int k = static_cast<int>(std::floor(std::log(low) / std::log(stride))) - 1;
       values.empty() || values.back() < 2 * high; ++k) {
    for (const double digit : digits) values.push_back(digit * std::pow(base, step * k));
  }
  return values;
}

/// Round values within [low, high], at most six: powers of the unit's base (2 or 10), for 10 with 2
/// and 5 between them where there is room. Where fewer than two fall there, the range is widened to
/// the next ones.
std::vector<double> round_ticks(double& low, double& high, ChartUnit unit) {
  constexpr std::size_t kMost = 6;
  constexpr double kSlack = 1e-9;
  const double base = unit == ChartUnit::bytes ? 2 : 10;
  const auto choose = [&](const std::vector<double>& values) {
    // The first within, unless fewer than two are; and the one behind the last.
    auto first = std::ranges::lower_bound(values, low * (1 - kSlack));
    auto end = std::ranges::upper_bound(values, high * (1 + kSlack));
    if (end - first < 2) {
      if (first == end || *first > low * (1 + kSlack)) --first;
      if (*(end - 1) < high * (1 - kSlack) || end - first < 2) ++end;
      low = std::min(low, *first);
      high = std::max(high, *(end - 1));
    }
    return std::vector<double>(first, end);
  };
  if (base == 10) {
    const std::vector<double> ticks = choose(round_values(low, high, base, 1, {1, 2, 5}));
    if (ticks.size() <= kMost) return ticks;
  }
  for (const int step : {1, 2, 5, 10, 20, 100}) {
    const std::vector<double> ticks = choose(round_values(low, high, base, step, {1}));
    if (ticks.size() <= kMost) return ticks;
  }
  return {low, high};
}

using UnitName = std::pair<double, std::string_view>;

/// The value in the largest of `units` (the largest first) that it reaches.
std::string in_units(double value, std::span<const UnitName> units) {
  for (const auto& [size, name] : units) {
    if (value >= size * 0.999) return fmt::format("{:.0f} {}", value / size, name);
  }
  return fmt::format("{:g} {}", value / units.back().first, units.back().second);
}

/// Ticks are round, so whole numbers do: "32 MiB", not "32.0 MiB".
std::string tick_label(double value, ChartUnit unit) {
  constexpr double kKi = 1024;
  static constexpr std::array<UnitName, 6> kBytes{{{kKi * kKi * kKi * kKi * kKi, "PiB"},
                                                   {kKi * kKi * kKi * kKi, "TiB"},
                                                   {kKi * kKi * kKi, "GiB"},
                                                   {kKi * kKi, "MiB"},
                                                   {kKi, "KiB"},
                                                   {1, "B"}}};
  static constexpr std::array<UnitName, 4> kSeconds{
      {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}}};
  static constexpr std::array<UnitName, 4> kRates{
      {{1e15, "PFLOP/s"}, {1e12, "TFLOP/s"}, {1e9, "GFLOP/s"}, {1e6, "MFLOP/s"}}};
  switch (unit) {
    case ChartUnit::length: return format_length(static_cast<std::int64_t>(value));
    case ChartUnit::bytes: return in_units(value, kBytes);
    case ChartUnit::seconds: return in_units(value, kSeconds);
    case ChartUnit::flops_per_s: return in_units(value, kRates);
    case ChartUnit::flops_per_byte: return fmt::format("{:g}", value);
  }
  return "?";
}

/// A grid of terminal cells, drawn on in dots: 2 x 4 a cell in braille, 1 x 1 in ASCII.
class Canvas {
 public:
  Canvas(int columns, int rows, const Style& style)
      : columns_(columns),
        rows_(rows),
        style_(&style),
        across_(style.braille ? 2 : 1),
        down_(style.braille ? 4 : 1),
        cells_(static_cast<std::size_t>(columns) * static_cast<std::size_t>(rows)) {}

  void line(double x0, double y0, double x1, double y1, Ink ink) {
    const double length =
        std::max(std::abs(x1 - x0) * columns_ * across_, std::abs(y1 - y0) * rows_ * down_);
    const int steps = std::max(1, static_cast<int>(std::ceil(length)));
    for (int step = 0; step <= steps; ++step) {
      const double t = static_cast<double>(step) / steps;
      dot(x0 + t * (x1 - x0), y0 + t * (y1 - y0), ink);
    }
  }
  void mark(double x, double y, std::string_view glyph, Ink ink) {
    Cell& cell = at(column(x), row(y));
    cell.glyph = glyph;
    cell.ink = ink;
  }
  /// Fills the empty cells of a row.
  void rule(double y, std::string_view glyph) {
    for (int c = 0; c < columns_; ++c) {
      Cell& cell = at(c, row(y));
      if (cell.glyph.empty() && cell.dots == 0) {
        cell.glyph = glyph;
        cell.ink = Ink::dim;
      }
    }
  }
  std::string text(int row_index) {
    std::string out;
    for (int c = 0; c < columns_; ++c) {
      const Cell& cell = at(c, row_index);
      out += paint(glyph_of(cell), cell.ink, *style_);
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    return out;
  }
  int column(double x) const { return place(x, columns_); }
  int row(double y) const { return rows_ - 1 - place(y, rows_); }

 private:
  struct Cell {
    unsigned dots = 0;
    std::string_view glyph;
    Ink ink = Ink::plain;
  };

  static int place(double position, int size) {
    return std::clamp(static_cast<int>(std::lround(position * (size - 1))), 0, size - 1);
  }
  Cell& at(int c, int r) {
    return cells_.at(static_cast<std::size_t>(r) * static_cast<std::size_t>(columns_) +
                     static_cast<std::size_t>(c));
  }
  void dot(double x, double y, Ink ink) {
    // The centre of a cell is where its marker stands, so positions run between centres.
    const double fine_x = (x * (columns_ - 1) + 0.5) * across_;
    const double fine_y = ((1 - y) * (rows_ - 1) + 0.5) * down_;
    const int px = std::clamp(static_cast<int>(fine_x), 0, columns_ * across_ - 1);
    const int py = std::clamp(static_cast<int>(fine_y), 0, rows_ * down_ - 1);
    Cell& cell = at(px / across_, py / down_);
    // Unicode braille patterns: bits 0-2 and 6 go down the left column, 3-5 and 7 down the right.
    constexpr std::array<std::array<unsigned, 4>, 2> kBits{
        {{0x01U, 0x02U, 0x04U, 0x40U}, {0x08U, 0x10U, 0x20U, 0x80U}}};
    cell.dots |=
        kBits.at(static_cast<std::size_t>(px % across_)).at(static_cast<std::size_t>(py % down_));
    cell.ink = ink;
  }
  std::string glyph_of(const Cell& cell) const {
    if (!cell.glyph.empty()) return std::string(cell.glyph);
    if (cell.dots == 0) return " ";
    if (!style_->braille) return ".";
    const unsigned code = 0x2800U + cell.dots;
    return {static_cast<char>(0xe0U | (code >> 12U)),
            static_cast<char>(0x80U | ((code >> 6U) & 0x3fU)),
            static_cast<char>(0x80U | (code & 0x3fU))};
  }

  int columns_;
  int rows_;
  const Style* style_;
  int across_;
  int down_;
  std::vector<Cell> cells_;
};

/// The range of a chart's coordinate and its ticks.
struct Axis {
  LogScale scale;
  std::vector<double> ticks;
};

Axis axis_of(std::vector<double> values, ChartUnit unit) {
  std::sort(values.begin(), values.end());
  double low = values.front();
  double high = values.back();
  if (unit == ChartUnit::length) {
    values.erase(std::unique(values.begin(), values.end()), values.end());
    // A single length stands in the middle.
    return {values.size() > 1 ? LogScale{low, high} : LogScale{low / 2, high * 2}, values};
  }
  const std::vector<double> ticks = round_ticks(low, high, unit);
  return {{low, high}, ticks};
}

struct Frame {
  Axis x;
  Axis y;
};

/// Nothing where no series has a point.
std::optional<Frame> frame_of(const Chart& chart) {
  std::vector<double> xs;
  std::vector<double> ys;
  const auto include = [&](const std::vector<ChartPoint>& points) {
    for (const ChartPoint& point : drawable(points)) {
      xs.push_back(point.x);
      ys.push_back(point.y);
    }
  };
  for (const ChartSeries& series : chart.series) {
    include(series.points);
    include(series.unmet);
  }
  if (xs.empty()) return std::nullopt;
  include(chart.roof);
  return Frame{axis_of(xs, chart.x_unit), axis_of(ys, chart.unit)};
}

Canvas plot(const Chart& chart, const Frame& frame, int columns, const Style& style,
            const Glyphs& glyphs) {
  const LogScale& x = frame.x.scale;
  const LogScale& y = frame.y.scale;
  Canvas canvas(columns, kRows, style);
  const auto join = [&](const std::vector<ChartPoint>& points, Ink ink) {
    for (std::size_t p = 1; p < points.size(); ++p) {
      canvas.line(x(points[p - 1].x), y(points[p - 1].y), x(points[p].x), y(points[p].y), ink);
    }
  };
  join(drawable(chart.roof), Ink::dim);
  for (std::size_t s = 0; chart.joined && s < chart.series.size(); ++s) {
    join(drawable(chart.series[s].points), kInks.at(s % kInks.size()));
  }
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    const Ink ink = kInks.at(s % kInks.size());
    for (const ChartPoint& point : drawable(chart.series[s].points)) {
      canvas.mark(x(point.x), y(point.y), glyphs.markers.at(s % glyphs.markers.size()), ink);
    }
    for (const ChartPoint& point : drawable(chart.series[s].unmet)) {
      canvas.mark(x(point.x), y(point.y), glyphs.unmet, ink);
    }
  }
  if (chart.limit && *chart.limit >= y.low && *chart.limit <= y.high) {
    canvas.rule(y(*chart.limit), glyphs.limit);
  }
  return canvas;
}

std::string_view axis_name(ChartUnit unit) {
  return unit == ChartUnit::length ? "N" : "op/B";
}

struct XTick {
  std::size_t column = 0;
  std::size_t start = 0;  ///< of the label
  std::string label;      ///< ASCII: bytes are columns
};

/// Every stride-th value, counted from the last; nothing where labels would touch.
std::optional<std::vector<XTick>> x_ticks(const Axis& axis, ChartUnit unit, const Canvas& canvas,
                                          std::size_t columns, std::size_t stride) {
  std::vector<XTick> ticks;
  const std::size_t count = axis.ticks.size();
  for (std::size_t i = (count - 1) % stride; i < count; i += stride) {
    const double value = axis.ticks[i];
    XTick tick{static_cast<std::size_t>(canvas.column(axis.scale(value))), 0,
               tick_label(value, unit)};
    const std::size_t before = std::min(tick.column, (tick.label.size() - 1) / 2);
    const std::size_t room = columns - std::min(tick.label.size(), columns);
    tick.start = std::min(tick.column - before, room);
    if (!ticks.empty() && tick.start <= ticks.back().start + ticks.back().label.size()) {
      return std::nullopt;
    }
    ticks.push_back(tick);
  }
  return ticks;
}

/// The axis below the canvas, with as many values as find room.
std::string x_axis(const Axis& axis, ChartUnit unit, const Canvas& canvas, std::size_t columns,
                   std::size_t margin, const Glyphs& glyphs) {
  std::vector<XTick> ticks;
  for (std::size_t stride = 1; stride <= axis.ticks.size(); ++stride) {
    if (const auto fitting = x_ticks(axis, unit, canvas, columns, stride)) {
      ticks = *fitting;
      break;
    }
  }
  std::vector<bool> ticked(columns, false);
  std::string labels;
  for (const XTick& tick : ticks) {
    labels += std::string(tick.start - labels.size(), ' ') + tick.label;
    ticked.at(tick.column) = true;
  }
  std::string line;
  for (const bool tick : ticked) line += tick ? glyphs.tick_down : glyphs.horizontal;
  return fmt::format("{}{}{}\n{} {}  {}\n", std::string(margin, ' '), glyphs.corner, line,
                     std::string(margin, ' '), labels, axis_name(unit));
}

std::string legend(const Chart& chart, const Style& style, const Glyphs& glyphs) {
  std::string text;
  std::size_t width = 0;
  bool unmet = false;
  for (const ChartSeries& series : chart.series) {
    width = std::max(width, display_width(series.name));
    unmet = unmet || !drawable(series.unmet).empty();
  }
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    const ChartSeries& series = chart.series[s];
    const std::string padding(width - display_width(series.name), ' ');
    text += fmt::format(
        "  {} {}{}{}\n",
        paint(glyphs.markers.at(s % glyphs.markers.size()), kInks.at(s % kInks.size()), style),
        series.name, series.note.empty() ? "" : padding + "  ", series.note);
  }
  if (unmet) text += fmt::format("  {} would need, and does not fit\n", glyphs.unmet);
  if (!chart.roof.empty()) text += fmt::format("  {} {}\n", glyphs.roof, chart.roof_name);
  if (chart.limit) {
    text +=
        fmt::format("  {} {}: {}\n", glyphs.limit, chart.limit_name, format_bytes(*chart.limit));
  }
  return text;
}

}  // namespace

std::string draw(const Chart& chart, const Style& style) {
  const Glyphs& glyphs = style.braille ? kUnicode : kAscii;
  const std::optional<Frame> frame = frame_of(chart);
  if (!frame) return "";

  std::size_t margin = 0;
  for (const double tick : frame->y.ticks) {
    margin = std::max(margin, tick_label(tick, chart.unit).size() + 1);
  }
  constexpr int kNarrowest = 40;
  const std::size_t beside = margin + axis_name(chart.x_unit).size() + 4;
  const int columns = std::max(style.width, kNarrowest) - static_cast<int>(beside);
  Canvas canvas = plot(chart, *frame, columns, style, glyphs);

  std::string text = paint(chart.title, Ink::bold, style) + "\n";
  for (int row = 0; row < kRows; ++row) {
    std::string label;
    for (const double tick : frame->y.ticks) {
      if (canvas.row(frame->y.scale(tick)) == row) label = tick_label(tick, chart.unit) + " ";
    }
    text += fmt::format("{:>{}}{}{}\n", label, margin,
                        label.empty() ? glyphs.vertical : glyphs.tick_left, canvas.text(row));
  }
  return text +
         x_axis(frame->x, chart.x_unit, canvas, static_cast<std::size_t>(columns), margin, glyphs) +
         legend(chart, style, glyphs);
}

}  // namespace flashbench
