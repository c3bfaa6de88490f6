#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "cell.h"

// Runs made by hand, for tests of what shows and writes them.

namespace flashbench {

inline Problem sample_problem(std::int64_t n, std::int64_t batch = 1) {
  Problem problem;
  problem.batch = batch;
  problem.heads = 16;
  problem.kv_heads = 16;
  problem.n_q = n;
  problem.n_kv = n;
  problem.head_dim = 128;
  problem.dtype = Dtype::bf16;
  problem.scale = default_scale(128);
  return problem;
}

/// A cell that is still to be judged: sizes and model as a materialising implementation has them.
inline Cell sample_cell(const Problem& problem, std::string name, Kind kind) {
  Cell cell;
  cell.problem = problem;
  cell.implementation = std::move(name);
  cell.kind = kind;
  cell.reason = "interrupted";
  cell.memory.operand_bytes = problem.operand_bytes();
  cell.memory.workspace_bytes = kind == Kind::naive ? problem.score_elements() * 2 : 0;
  cell.memory.peak_bytes = cell.memory.operand_bytes + cell.memory.workspace_bytes;
  cell.memory.needed_bytes = cell.memory.peak_bytes + (1 << 28);
  cell.memory.free_bytes = std::int64_t{139} << 30;
  return cell;
}

/// A cell that ended well, its time `seconds`.
inline Cell ok_cell(const Problem& problem, std::string name, Kind kind, double seconds) {
  Cell cell = sample_cell(problem, std::move(name), kind);
  cell.status = Status::ok;
  cell.reason.reset();
  Exactness exactness;
  exactness.verdict = Verdict::exact;
  exactness.bound_ratio = 0.5;
  exactness.row_noise = 1.25;
  exactness.row_noise_limit = 4.0;
  exactness.max_abs = 1e-3;
  exactness.rel_frobenius = 2e-3;
  exactness.max_ulp = 1;
  exactness.worst = {{0, 3, 17}, 5, 0.25, 0.2500001, 1e-3};
  exactness.rows_checked = 256;
  exactness.rows_total = problem.rows();
  exactness.deterministic = true;
  exactness.compared_with = "other";
  cell.exactness = exactness;
  TimeStats time;
  time.median_s = seconds;
  time.min_s = 0.98 * seconds;
  time.max_s = 1.1 * seconds;
  time.ci_low_s = 0.99 * seconds;
  time.ci_high_s = 1.01 * seconds;
  time.samples_s = {time.min_s, seconds, time.max_s};
  time.stopped_by = "precision";
  time.sm_clock_hz = 1.9e9;
  cell.time = time;
  StepResult step;
  step.name = "attention";
  step.median_s = seconds;
  StepModel model;
  model.name = "attention";
  model.read_bytes = cell.memory.peak_bytes;
  model.write_bytes = 1 << 20;
  model.unit = MatrixUnit::tensor_bf16;
  model.matrix_flops = problem.flops();
  model.exps = problem.exps();
  step.model = model;
  cell.steps = {step};
  cell.measured_reason = "counters not built yet";
  cell.choices = {{"tile", "128x64"}};
  cell.speedup_over_naive = Ratio{kind == Kind::naive ? 1.0 : 2.5, 2.4, 2.6};
  return cell;
}

inline Cell ended_cell(const Problem& problem, std::string name, Kind kind, Status status,
                       std::string reason) {
  Cell cell = sample_cell(problem, std::move(name), kind);
  cell.status = status;
  cell.reason = std::move(reason);
  return cell;
}

inline Run sample_run() {
  Run run;
  run.command = {"flashbench", "sweep"};
  run.started_utc = "2026-01-02T03:04:05Z";
  run.device.kind = DeviceKind::cuda;
  run.device.name = "NVIDIA H200";
  run.device.uuid = "GPU-1";
  run.device.memory_bytes = std::int64_t{140} << 30;
  run.device.l2_bytes = 60 << 20;
  run.device.sm_count = 132;
  run.device.compute_capability = 90;
  run.device.driver = "13.0";
  run.device.runtime = "13.0";
  return run;
}

/// Gives a cell what the counters would say.
inline void count(Cell& cell, double read_bytes, double write_bytes) {
  CounterFigures figures;
  figures.read_bytes = read_bytes;
  figures.write_bytes = write_bytes;
  figures.tensor_bf16_ops = cell.problem.flops();
  figures.duration_s = cell.time->median_s;
  for (StepResult& step : cell.steps) step.measured = figures;
  PlanCounters counters;
  counters.whole = figures;
  counters.repeats = 3;
  counters.passes = 1;
  cell.counters = counters;
  cell.measured_reason.reset();
}

/// Gives a cell a bound, its time twice the floor.
inline void bind(Cell& cell, Bound bound_by) {
  StepBound step;
  step.bound_by = bound_by;
  step.floor_s = cell.time->median_s / 2;
  step.hbm_bytes_per_s = 2e12;
  step.hbm_fraction = 0.5;
  cell.steps.front().bound = step;
  cell.bound = PlanBound{bound_by, step.floor_s, 2.0};
}

/// A run with a cell of every status and every figure that is not finite.
inline Run run_of_everything() {
  Run run = sample_run();
  References references;
  references.rates[Reference::copy] = {4.2e12, 4.1e12, 4.3e12, 1.9e9, {4.2e12, 4.21e12}};
  references.rates[Reference::matrix_bf16] = {7.9e14, 7.8e14, 8e14, std::nullopt, {7.9e14}};
  run.references = references;
  run.noise_floor = NoiseFloor{{1.0, 0.999, 1.001}, true};
  run.warnings = {"the clock was held by power"};
  const Problem problem = sample_problem(4096);
  run.cells.push_back(ok_cell(problem, "naive", Kind::naive, 1e-3));
  run.cells.push_back(ok_cell(problem, "fused", Kind::fused, 4e-4));
  run.cells.push_back(
      ended_cell(problem, "odd", Kind::fused, Status::unsupported, "head dim 128 is odd"));
  run.cells.push_back(ended_cell(problem, "large", Kind::naive, Status::out_of_memory,
                                 "needs 512 GiB, 139 GiB free"));
  Cell wrong = ok_cell(problem, "broken", Kind::fused, 1e-3);
  wrong.status = Status::wrong;
  wrong.reason = "an element is NaN";
  wrong.exactness->verdict = Verdict::not_exact;
  wrong.exactness->reason = "an element is NaN";
  wrong.exactness->bound_ratio = std::numeric_limits<double>::infinity();
  wrong.exactness->max_abs = std::nan("");
  wrong.exactness->worst.got = -std::numeric_limits<double>::infinity();
  wrong.exactness->row_noise.reset();
  wrong.exactness->deterministic.reset();
  run.cells.push_back(wrong);
  run.cells.push_back(ended_cell(problem, "crash", Kind::fused, Status::failed, "illegal address"));
  run.cells.push_back(ended_cell(problem, "late", Kind::fused, Status::not_run, "interrupted"));
  Cell approximate = ok_cell(problem, "window", Kind::approximate, 1e-4);
  approximate.exactness->verdict = Verdict::not_exact;
  approximate.exactness->reason = "error above the bound";
  count(approximate, 1e9, 2.5e8 + 0.5);
  bind(approximate, Bound::hbm);
  run.cells.push_back(approximate);
  Cell impossible = ok_cell(problem, "liar", Kind::fused, 1e-9);
  bind(impossible, Bound::latency);
  impossible.steps.front().impossible = {"1e9 TFLOP/s is more than the device has"};
  run.cells.push_back(impossible);
  return run;
}

}  // namespace flashbench
