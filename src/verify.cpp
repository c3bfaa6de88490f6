#include "verify.h"

#include <fmt/format.h>

#include <cmath>

#include "error.h"

namespace flashbench {

namespace {

constexpr double kCpuBudget = 1e9;
constexpr double kCudaBudget = 1e12;

bool has_non_finite(Distribution distribution) {
  return distribution == Distribution::non_finite_hidden ||
         distribution == Distribution::non_finite_visible;
}

/// The log-sum-exps of `rows`, or nothing where the implementation wrote none at all.
std::optional<std::vector<double>> read_lse(Device& device, const Problem& problem,
                                            const float* lse, std::span<const RowId> rows) {
  std::vector<float> host(static_cast<std::size_t>(problem.rows()));
  device.download(host.data(), lse, problem.rows() * 4);
  bool written = false;
  for (const float value : host) written = written || !std::isnan(value);
  if (!written) return std::nullopt;
  std::vector<double> values;
  values.reserve(rows.size());
  for (const RowId& row : rows) {
    const std::int64_t at = (row.batch * problem.heads + row.head) * problem.n_q + row.row;
    values.push_back(static_cast<double>(host[static_cast<std::size_t>(at)]));
  }
  return values;
}

}  // namespace

double verify_budget(DeviceKind kind) {
  return kind == DeviceKind::cuda ? kCudaBudget : kCpuBudget;
}

CaseRun::CaseRun(Backend& backend, const VerifyCase& verify_case, double budget)
    : backend_(backend),
      case_(verify_case),
      arena_(*backend.device),
      bench_(arena_, *backend.device, verify_case.problem, 1, 0, true) {
  backend_.oracle->generate(case_.problem, case_.inputs, bench_.operands(0));
  truth_ = backend_.oracle->rows(case_.problem, bench_.operands(0),
                                 select_rows(case_.problem, budget, case_.inputs.seed));
}

CaseOutcome CaseRun::judge(const Implementation& implementation) {
  try {
    return run(implementation);
  } catch (const DeviceLost&) {
    throw;
  } catch (const OutOfMemory& error) {
    return {Status::out_of_memory, error.what(), std::nullopt};
  } catch (const std::exception& error) {
    return {Status::failed, error.what(), std::nullopt};
  }
}

CaseOutcome CaseRun::run(const Implementation& implementation) {
  if (auto reason = cannot_run(implementation)) {
    return {Status::unsupported, std::move(reason), std::nullopt};
  }
  Device& device = *backend_.device;
  const Buffer workspace =
      arena_.allocate(implementation.workspace_bytes(case_.problem, device.info()));
  const Plan plan =
      implementation.plan(case_.problem, bench_.operands(0), workspace.data(), device);
  for (const bool first : {true, false}) {
    bench_.poison(0);
    plan.enqueue(device.stream());
    device.synchronize();
    if (first) bench_.keep(0);
  }
  CaseOutcome outcome;
  outcome.exactness = judge_output(implementation.arithmetic(case_.problem));
  outcome.status = outcome.exactness->verdict == Verdict::exact ? Status::ok : Status::wrong;
  outcome.reason = outcome.exactness->reason;
  return outcome;
}

std::optional<std::string> CaseRun::cannot_run(const Implementation& implementation) {
  const Problem& problem = case_.problem;
  if (auto reason = implementation.unsupported(problem, backend_.device->info())) return reason;
  if (!implementation.arithmetic(problem).scores_in_dtype) return std::nullopt;
  const double limit = max_finite(problem.dtype);
  if (!largest_score_) {
    largest_score_ = backend_.oracle->largest_score(problem, bench_.operands(0), limit);
  }
  if (*largest_score_ <= limit) return std::nullopt;
  return fmt::format("stores scores in {}, which ends at {:.6g}: the largest here is {:.6g}",
                     to_string(problem.dtype), limit, *largest_score_);
}

Exactness CaseRun::judge_output(const Arithmetic& arithmetic) {
  const Operands operands = bench_.operands(0);
  Exactness exactness =
      flashbench::judge(case_.problem, arithmetic, truth_, bench_.read_rows(0, truth_.rows),
                        is_generic(case_.inputs.distribution));
  const auto lse = read_lse(*backend_.device, case_.problem, operands.lse, truth_.rows);
  if (lse) judge_lse(case_.problem, arithmetic, truth_, *lse, exactness);

  const Tensor earlier = bench_.spare();
  const OutputScan scan = backend_.oracle->scan(operands.o, &earlier);
  exactness.deterministic = scan.differing_elements == 0;
  if (scan.poisoned > 0) {
    exactness.verdict = Verdict::not_exact;
    exactness.reason = fmt::format("{} output elements were never written", scan.poisoned);
  } else if (scan.non_finite > 0 && !has_non_finite(case_.inputs.distribution)) {
    exactness.verdict = Verdict::not_exact;
    exactness.reason = fmt::format("{} output elements are not finite", scan.non_finite);
  }
  return exactness;
}

CaseOutcome judge_case(Backend& backend, const Implementation& implementation,
                       const VerifyCase& verify_case) {
  const Implementation* one = &implementation;
  return judge_case(backend, std::span(&one, 1), verify_case).front();
}

std::vector<CaseOutcome> judge_case(Backend& backend,
                                    std::span<const Implementation* const> implementations,
                                    const VerifyCase& verify_case) {
  std::vector<CaseOutcome> outcomes;
  try {
    CaseRun run(backend, verify_case, verify_budget(backend.device->info().kind));
    for (const Implementation* implementation : implementations) {
      outcomes.push_back(run.judge(*implementation));
    }
  } catch (const OutOfMemory& error) {
    outcomes.assign(implementations.size(), {Status::out_of_memory, error.what(), std::nullopt});
  }
  return outcomes;
}

}  // namespace flashbench
