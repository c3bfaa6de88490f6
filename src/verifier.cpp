#include "verifier.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "annotate.h"

namespace flashbench {

namespace {

// Elements of the truth kept on the host: each carries about ten doubles.
constexpr double kTruthElements = 1 << 20;

bool has_non_finite(Distribution distribution) {
  return distribution == Distribution::non_finite_hidden ||
         distribution == Distribution::non_finite_visible;
}

/// The log-sum-exps of `rows`, or nothing where the implementation wrote none at all.
std::optional<std::vector<double>> read_lse(Device& device, const Problem& problem,
                                            const float* lse, std::span<const RowId> rows) {
  if (lse == nullptr) return std::nullopt;
  std::vector<float> host(static_cast<std::size_t>(problem.rows()));
  device.download(host.data(), lse, problem.rows() * 4);
  if (std::ranges::all_of(host, [](float value) { return std::isnan(value); })) return std::nullopt;
  std::vector<double> values;
  values.reserve(rows.size());
  for (const RowId& row : rows) {
    const std::int64_t at = (row.batch * problem.heads + row.head) * problem.n_q + row.row;
    values.push_back(static_cast<double>(host[static_cast<std::size_t>(at)]));
  }
  return values;
}

}  // namespace

double sweep_budget(DeviceKind kind) {
  return kind == DeviceKind::cuda ? 2e12 : 4e9;
}

double verify_budget(DeviceKind kind) {
  return kind == DeviceKind::cuda ? 1e12 : 1e9;
}

Verifier::Verifier(Backend& backend, Workbench& bench, const InputSpec& inputs, double budget)
    : backend_(backend), bench_(bench), inputs_(inputs) {
  const Range phase("oracle");
  const double held =
      kTruthElements * static_cast<double>(bench.problem().n_kv) * kOracleOperations;
  const std::vector<RowId> rows = select_rows(bench.problem(), std::min(budget, held), inputs.seed);
  truth_ = backend.oracle->rows(bench.problem(), bench.operands(0), rows);
}

bool Verifier::all_rows() const {
  return static_cast<std::int64_t>(truth_.rows.size()) == bench_.problem().rows();
}

std::optional<std::string> Verifier::score_overflow(const Implementation& implementation) {
  const Problem& problem = bench_.problem();
  if (!implementation.arithmetic(problem).scores_in_dtype) return std::nullopt;
  const double limit = max_finite(problem.dtype);
  if (!largest_score_) {
    largest_score_ = backend_.oracle->largest_score(problem, bench_.operands(0), limit);
  }
  if (*largest_score_ <= limit) return std::nullopt;
  return fmt::format("stores scores in {}, which ends at {:.6g}: the largest here is {:.6g}",
                     to_string(problem.dtype), limit, *largest_score_);
}

Exactness Verifier::check(std::size_t output, const Arithmetic& arithmetic) {
  const Problem& problem = bench_.problem();
  const Operands operands = bench_.operands(output);
  Exactness exactness = judge(problem, arithmetic, truth_, bench_.read_rows(output, truth_.rows),
                              is_generic(inputs_.distribution));
  if (const auto lse = read_lse(*backend_.device, problem, operands.lse, truth_.rows)) {
    judge_lse(problem, arithmetic, truth_, *lse, exactness);
  }
  const OutputScan scan = backend_.oracle->scan(operands.o, nullptr);
  if (scan.poisoned > 0) {
    exactness.verdict = Verdict::not_exact;
    exactness.reason = fmt::format("{} output elements were never written", scan.poisoned);
  } else if (scan.non_finite > 0 && !has_non_finite(inputs_.distribution)) {
    exactness.verdict = Verdict::not_exact;
    exactness.reason = fmt::format("{} output elements are not finite", scan.non_finite);
  }
  return exactness;
}

bool Verifier::repeats(std::size_t output) {
  const Tensor spare = bench_.spare();
  return backend_.oracle->scan(bench_.operands(output).o, &spare).differing_elements == 0;
}

std::optional<std::string> Verifier::compare(std::size_t output, std::size_t other) {
  const Tensor reference = bench_.operands(other).o;
  const OutputScan scan = backend_.oracle->scan(bench_.operands(output).o, &reference);
  return compare_outputs(bench_.problem(), scan, bench_.read_rows(output, truth_.rows),
                         bench_.read_rows(other, truth_.rows));
}

}  // namespace flashbench
