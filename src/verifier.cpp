#include "verifier.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "annotate.h"
#include "error.h"

namespace flashbench {

namespace {

// What the oracle may cost: about a second on two cores, a fraction of one on a GPU.
constexpr double kCpuOracleOperations = 4e9;
constexpr double kCudaOracleOperations = 2e12;

// An unsampled row may differ from the other output by this many times what the sampled rows do at
// most. They are few hundred out of up to millions, so the largest of all lies somewhat above
// theirs; a dropped tile lies orders of magnitude above.
constexpr double kRowDifferenceFactor = 4.0;

}  // namespace

Verifier::Verifier(Backend& backend, Workbench& bench, const InputSpec& inputs)
    : backend_(backend), bench_(bench), inputs_(inputs) {
  const Range phase("oracle");
  const double budget = backend.device->info().kind == DeviceKind::cuda ? kCudaOracleOperations
                                                                        : kCpuOracleOperations;
  const std::vector<RowId> rows = select_rows(bench.problem(), budget, inputs.seed);
  truth_ = backend.oracle->rows(bench.problem(), bench.operands(0), rows);
}

bool Verifier::all_rows() const {
  return static_cast<std::int64_t>(truth_.rows.size()) == bench_.problem().rows();
}

Exactness Verifier::check(std::size_t output, const Arithmetic& arithmetic) {
  Exactness exactness = check_rows(output, arithmetic);
  const Tensor spare = bench_.spare();
  const OutputScan scan = backend_.oracle->scan(bench_.operands(output).o, &spare);
  exactness.deterministic = scan.differing_elements == 0;
  return exactness;
}

Exactness Verifier::check_rows(std::size_t output, const Arithmetic& arithmetic) {
  Exactness exactness =
      judge(bench_.problem(), arithmetic, truth_, bench_.read_rows(output, truth_.rows),
            is_generic(inputs_.distribution));
  exactness.rows_total = bench_.problem().rows();
  const OutputScan scan = backend_.oracle->scan(bench_.operands(output).o, nullptr);
  const bool finite_data = inputs_.distribution != Distribution::non_finite_hidden &&
                           inputs_.distribution != Distribution::non_finite_visible;
  if (scan.poisoned > 0) {
    exactness.verdict = Verdict::not_exact;
    exactness.reason = fmt::format("{} output elements were never written", scan.poisoned);
  } else if (finite_data && scan.non_finite > 0) {
    exactness.verdict = Verdict::not_exact;
    exactness.reason = fmt::format("{} output elements are not finite", scan.non_finite);
  }
  return exactness;
}

std::optional<std::string> Verifier::compare(std::size_t output, std::size_t other) {
  const auto d = static_cast<std::size_t>(bench_.problem().head_dim);
  const std::vector<double> mine = bench_.read_rows(output, truth_.rows);
  const std::vector<double> theirs = bench_.read_rows(other, truth_.rows);
  double sampled = unit_roundoff(bench_.problem().dtype);
  for (std::size_t r = 0; r < truth_.rows.size(); ++r) {
    double difference = 0;
    double norm = 0;
    for (std::size_t i = r * d; i < (r + 1) * d; ++i) {
      difference += (mine[i] - theirs[i]) * (mine[i] - theirs[i]);
      norm += theirs[i] * theirs[i];
    }
    if (norm > 0) sampled = std::max(sampled, std::sqrt(difference / norm));
  }
  const Tensor reference = bench_.operands(other).o;
  const OutputScan scan = backend_.oracle->scan(bench_.operands(output).o, &reference);
  const double limit = kRowDifferenceFactor * sampled;
  if (scan.max_row_difference <= limit) return std::nullopt;
  return fmt::format("row {} of batch {}, head {} is off by {:.2g} (limit {:.2g}) from",
                     scan.worst_row.row, scan.worst_row.batch, scan.worst_row.head,
                     scan.max_row_difference, limit);
}

}  // namespace flashbench
