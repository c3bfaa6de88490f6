#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "device_choice.h"
#include "diagnose.h"
#include "document.h"
#include "error.h"
#include "report.h"
#include "report_parts.h"
#include "tensors.h"
#include "units.h"
#include "utc.h"
#include "verdict_table.h"
#include "verifier.h"

namespace flashbench {
namespace {

constexpr int kNotExact = 1;
constexpr int kFailed = 3;

/// How somebody else's kernel is taken to round.
Arithmetic arithmetic_of(const CheckOptions& options, Dtype dtype) {
  Arithmetic arithmetic;
  arithmetic.scores_in_dtype = options.materialised && dtype != Dtype::f32;
  arithmetic.weights_in_dtype = dtype != Dtype::f32;
  arithmetic.weights_normalised = options.materialised;
  arithmetic.tensor_core_sums = dtype != Dtype::f32;
  return arithmetic;
}

std::vector<double> read_rows(const Tensor& out, const std::vector<RowId>& rows) {
  std::vector<double> values;
  for (const RowId& row : rows) {
    for (std::int64_t column = 0; column < out.shape[3]; ++column) {
      values.push_back(
          load_element(out.data, out.dtype, out.at(row.batch, row.row, row.head, column)));
    }
  }
  return values;
}

/// The log-sum-exp of the rows, [batch, heads, n_q] in the file.
std::vector<double> read_lse(const std::string& path, const Problem& problem,
                             const std::vector<RowId>& rows) {
  const NpyArray lse = read_npy(path);
  if (lse.dtype != Dtype::f32 || lse.elements() != problem.rows()) {
    throw UsageError(fmt::format("{}: the log-sum-exp is float32 of shape [{}, {}, {}]", path,
                                 problem.batch, problem.heads, problem.n_q));
  }
  std::vector<double> values;
  for (const RowId& row : rows) {
    values.push_back(load_element(lse.data.data(), Dtype::f32,
                                  (row.batch * problem.heads + row.head) * problem.n_q + row.row));
  }
  return values;
}

std::string document_text(const CheckOptions& options, const Problem& problem,
                          const Exactness& exactness, const Diagnosis& diagnosis) {
  const Json document{{"schema_version", kSchemaVersion},
                      {"tool", tool_json()},
                      {"command", options.command},
                      {"started_utc", utc_now()},
                      {"problem", problem_json(problem)},
                      {"files",
                       {{"q", options.tensors.q},
                        {"k", options.tensors.k},
                        {"v", options.tensors.v},
                        {"out", options.out},
                        {"lse", or_null(options.lse)}}},
                      {"exactness", exactness_json(exactness)},
                      {"diagnosis", {{"places", diagnosis.places}, {"causes", diagnosis.causes}}}};
  return lines_of(document, "");
}

}  // namespace

int run(const CheckOptions& options) {
  HostTensors tensors = load_tensors(options.tensors);
  const Problem& problem = tensors.problem;
  NpyArray out = load_output(options.out, options.tensors, problem);
  const Operands operands{view(tensors.q), view(tensors.k), view(tensors.v), view(out), nullptr};

  // The truth is worked out here, whatever made the output.
  const Backend backend = make_cpu_backend();
  const std::vector<RowId> rows = select_rows(problem, sweep_budget(DeviceKind::cpu), options.seed);
  const OracleRows truth = backend.oracle->rows(problem, operands, rows);
  const std::vector<double> got = read_rows(operands.o, rows);
  const Arithmetic arithmetic = arithmetic_of(options, problem.dtype);
  Exactness exactness = judge(problem, arithmetic, truth, got, false);
  const bool output_wrong = exactness.verdict != Verdict::exact;
  if (options.lse) {
    judge_lse(problem, arithmetic, truth, read_lse(*options.lse, problem, rows), exactness);
  }
  exactness.rows_total = problem.rows();
  Diagnosis diagnosis;
  if (output_wrong) {
    diagnosis = diagnose(*backend.oracle, problem, operands, arithmetic, truth, got);
  }

  Document document(options.json);
  document.finish(document_text(options, problem, exactness, diagnosis));
  std::FILE* stream = document.text_stream();
  fmt::print(stream, "{}, {} of {} rows compared\n", problem.to_string(),
             format_grouped(exactness.rows_checked), format_grouped(exactness.rows_total));
  fmt::print(stream, "worst element: {}\n", describe_worst(exactness));
  fmt::print(stream, "largest error {:.3g} ({:.3g} ulp), relative Frobenius norm {:.3g}\n",
             exactness.max_abs, exactness.max_ulp, exactness.rel_frobenius);
  if (exactness.lse_bound_ratio) {
    fmt::print(stream, "log-sum-exp: largest error {:.3g} times its bound\n",
               *exactness.lse_bound_ratio);
  }
  for (const std::string& place : diagnosis.places) fmt::print(stream, "where: {}\n", place);
  for (const std::string& cause : diagnosis.causes) fmt::print(stream, "{}\n", cause);
  const bool exact = exactness.verdict == Verdict::exact;
  fmt::print(stream, "{} is {}{}\n", options.out, exact ? "exact" : "not exact",
             exactness.reason ? ": " + *exactness.reason : "");
  if (document.lost()) return kFailed;
  return exact ? 0 : kNotExact;
}

}  // namespace flashbench
