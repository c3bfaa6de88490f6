#include "verifier.h"

#include <fmt/format.h>

#include <algorithm>

#include "annotate.h"

namespace flashbench {

namespace {

// What the oracle may cost: about a second on two cores, a fraction of one on a GPU.
constexpr double kCpuOracleOperations = 4e9;
constexpr double kCudaOracleOperations = 2e12;

// Elements of the truth kept on the host: each carries about ten doubles.
constexpr double kTruthElements = 1 << 20;

double oracle_budget(const Problem& problem, DeviceKind kind) {
  const double operations = kind == DeviceKind::cuda ? kCudaOracleOperations : kCpuOracleOperations;
  return std::min(operations,
                  kTruthElements * static_cast<double>(problem.n_kv) * kOracleOperations);
}

}  // namespace

Verifier::Verifier(Backend& backend, Workbench& bench, const InputSpec& inputs)
    : backend_(backend), bench_(bench), inputs_(inputs) {
  const Range phase("oracle");
  const double budget = oracle_budget(bench.problem(), backend.device->info().kind);
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
  const Tensor reference = bench_.operands(other).o;
  const OutputScan scan = backend_.oracle->scan(bench_.operands(output).o, &reference);
  return compare_outputs(bench_.problem(), scan, bench_.read_rows(output, truth_.rows),
                         bench_.read_rows(other, truth_.rows));
}

}  // namespace flashbench
