#include "verify.h"

#include "error.h"

namespace flashbench {

namespace {

/// Fills the inputs of a workbench, so that what is made from it next finds them there.
Workbench& filled(Workbench& bench, Oracle& oracle, const InputSpec& inputs) {
  oracle.generate(bench.problem(), inputs, bench.operands(0));
  return bench;
}

}  // namespace

CaseRun::CaseRun(Backend& backend, const VerifyCase& verify_case, double budget)
    : backend_(backend),
      case_(verify_case),
      arena_(*backend.device),
      bench_(arena_, *backend.device, verify_case.problem, 1, 0, true),
      verifier_(backend, filled(bench_, *backend.oracle, verify_case.inputs), verify_case.inputs,
                budget) {}

CaseOutcome CaseRun::judge(const Implementation& implementation, bool twice) {
  try {
    return run(implementation, twice);
  } catch (const DeviceLost&) {
    throw;
  } catch (const OutOfMemory& error) {
    return {Status::out_of_memory, error.what(), std::nullopt};
  } catch (const std::exception& error) {
    return {Status::failed, error.what(), std::nullopt};
  }
}

CaseOutcome CaseRun::run(const Implementation& implementation, bool twice) {
  auto reason = implementation.unsupported(case_.problem, backend_.device->info());
  if (!reason) reason = verifier_.score_overflow(implementation);
  if (reason) return {Status::unsupported, std::move(reason), std::nullopt};
  Device& device = *backend_.device;
  const Buffer workspace =
      arena_.allocate(implementation.workspace_bytes(case_.problem, device.info()));
  const Plan plan =
      implementation.plan(case_.problem, bench_.operands(0), workspace.data(), device);
  for (int launch = 0; launch < (twice ? 2 : 1); ++launch) {
    if (launch > 0) bench_.keep(0);
    bench_.poison(0);
    plan.enqueue(device.stream());
    device.synchronize();
  }
  CaseOutcome outcome;
  outcome.exactness = verifier_.check(0, implementation.arithmetic(case_.problem));
  if (twice) outcome.exactness->deterministic = verifier_.repeats(0);
  outcome.status = outcome.exactness->verdict == Verdict::exact ? Status::ok : Status::wrong;
  outcome.reason = outcome.exactness->reason;
  return outcome;
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
