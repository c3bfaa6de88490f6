#include "verdict_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "statistics.h"
#include "units.h"

namespace flashbench {
namespace {

constexpr std::size_t kVerdictWidth = 16;

std::string figure(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return fmt::format("{:.6g}", value);
}

struct Words {
  std::string text;
  Ink ink = Ink::plain;
};

Words words(const CaseOutcome& outcome, Kind kind) {
  switch (outcome.status) {
    case Status::ok: {
      const double ratio = outcome.exactness ? outcome.exactness->bound_ratio : 0;
      return {fmt::format("exact {:.3f}", ratio), Ink::green};
    }
    case Status::wrong: {
      const Ink ink = kind == Kind::approximate ? Ink::yellow : Ink::red;
      if (!outcome.exactness) return {"NOT EXACT", ink};
      return {fmt::format("NOT EXACT {:.3g}", outcome.exactness->bound_ratio), ink};
    }
    case Status::unsupported: return {"unsupported", Ink::dim};
    case Status::out_of_memory: return {"no memory", Ink::yellow};
    case Status::failed: return {"FAILED", Ink::red};
    case Status::not_run: return {"not run", Ink::dim};
  }
  return {"?", Ink::plain};
}

std::string pad(std::string_view text, std::size_t width) {
  const std::size_t shown = display_width(text);
  return std::string(text) + std::string(width > shown ? width - shown : 0, ' ');
}

std::size_t column_width(const VerifiedImplementation& implementation) {
  return std::max(kVerdictWidth, display_width(implementation.name) + 2);
}

struct Tally {
  std::size_t exact = 0, wrong = 0, skipped = 0, failed = 0;
  double bound_ratio = 0;
  double row_noise = 0;
  std::vector<double> wrong_ratios;  // of those not exact: the largest error over its bound
};

Tally tally(const Verification& verification, std::size_t implementation) {
  Tally count;
  for (const VerifiedCase& verified : verification.cases) {
    const CaseOutcome& outcome = verified.outcomes.at(implementation);
    switch (outcome.status) {
      case Status::ok: ++count.exact; break;
      case Status::wrong:
        ++count.wrong;
        if (outcome.exactness) count.wrong_ratios.push_back(outcome.exactness->bound_ratio);
        break;
      case Status::unsupported:
      case Status::out_of_memory: ++count.skipped; break;
      case Status::failed:
      case Status::not_run: ++count.failed; break;
    }
    if (outcome.status == Status::ok && outcome.exactness) {
      count.bound_ratio = std::max(count.bound_ratio, outcome.exactness->bound_ratio);
      count.row_noise = std::max(count.row_noise, outcome.exactness->row_noise.value_or(0));
    }
  }
  return count;
}

}  // namespace

VerdictTable::VerdictTable(const std::vector<VerifiedImplementation>& implementations,
                           const std::vector<VerifyCase>& cases, Style style)
    : implementations_(implementations), style_(style) {
  for (const VerifyCase& one : cases) {
    name_width_ = std::max(name_width_, display_width(one.name));
  }
}

std::string VerdictTable::heading() const {
  std::string text = pad("case", name_width_);
  for (const VerifiedImplementation& implementation : implementations_) {
    text += "  " + pad(implementation.name, column_width(implementation));
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return paint(text, Ink::bold, style_) + "\n";
}

std::string VerdictTable::row(const VerifiedCase& verified) const {
  std::string text = pad(verified.verify_case.name, name_width_);
  for (std::size_t i = 0; i < implementations_.size(); ++i) {
    const Words said = words(verified.outcomes.at(i), implementations_[i].kind);
    const bool last = i + 1 == implementations_.size();
    text += "  ";
    text += paint(last ? said.text : pad(said.text, column_width(implementations_[i])), said.ink,
                  style_);
  }
  return text + "\n";
}

std::string describe_worst(const Exactness& exactness) {
  const WorstElement& worst = exactness.worst;
  return fmt::format(
      "batch {}, head {}, row {}, column {}: got {}, want {}, error {} times its bound",
      worst.row.batch, worst.row.head, worst.row.row, worst.column, figure(worst.got),
      figure(worst.want), figure(exactness.bound_ratio));
}

std::string failures(const Verification& verification, std::size_t limit) {
  std::string text;
  std::size_t found = 0;
  for (const VerifiedCase& verified : verification.cases) {
    for (std::size_t i = 0; i < verified.outcomes.size(); ++i) {
      const CaseOutcome& outcome = verified.outcomes[i];
      const VerifiedImplementation& implementation = verification.implementations.at(i);
      const bool wrong =
          outcome.status == Status::wrong && implementation.kind != Kind::approximate;
      if (!wrong && outcome.status != Status::failed) continue;
      if (++found > limit) continue;
      text += fmt::format("{} on {}: {}\n", implementation.name, verified.verify_case.name,
                          outcome.reason.value_or(wrong ? "not exact" : "failed"));
      if (outcome.exactness && outcome.exactness->rows_checked > 0) {
        text += fmt::format("    {}\n", describe_worst(*outcome.exactness));
      }
    }
  }
  if (found > limit) text += fmt::format("and {} more\n", found - limit);
  return text;
}

std::string summary(const Verification& verification) {
  std::string text;
  Tally total;
  for (std::size_t i = 0; i < verification.implementations.size(); ++i) {
    const VerifiedImplementation& implementation = verification.implementations[i];
    const Tally count = tally(verification, i);
    const bool approximate = implementation.kind == Kind::approximate;
    text += fmt::format("{}: {} exact", implementation.name, count.exact);
    if (count.exact > 0) {
      text += fmt::format(" (bound ratio at most {:.3f}, row noise at most {:.2f})",
                          count.bound_ratio, count.row_noise);
    }
    if (count.wrong > 0) {
      text += fmt::format(", {} {}", count.wrong,
                          approximate ? "not exact, as an approximation is" : "NOT EXACT");
      if (!count.wrong_ratios.empty()) {
        text += fmt::format(" (error {:.3g} times its bound in the median)",
                            median(count.wrong_ratios));
      }
    }
    if (count.skipped > 0) text += fmt::format(", {} not for it", count.skipped);
    if (count.failed > 0) text += fmt::format(", {} FAILED", count.failed);
    text += "\n";
    total.exact += count.exact;
    total.wrong += approximate ? 0 : count.wrong;
    total.failed += count.failed;
  }
  return text + fmt::format("{} cases x {} implementations: {} exact, {} not exact, {} failed{}\n",
                            verification.cases.size(), verification.implementations.size(),
                            total.exact, total.wrong, total.failed,
                            verification.interrupted ? "; interrupted" : "");
}

}  // namespace flashbench
