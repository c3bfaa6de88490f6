#include "workbench.h"

namespace flashbench {

namespace {

// From this many rows on, one large copy is quicker than many small ones.
constexpr std::size_t kRowsForWholeCopy = 2048;

}  // namespace

Workbench::Workbench(Arena& arena, Device& device, const Problem& problem, std::size_t outputs,
                     std::int64_t workspace_bytes, bool with_lse)
    : problem_(problem), device_(&device) {
  const std::int64_t q_bytes = checked_multiply(problem.q_elements(), size_of(problem.dtype));
  const std::int64_t kv_bytes = checked_multiply(problem.kv_elements(), size_of(problem.dtype));
  q_ = arena.allocate(q_bytes);
  k_ = arena.allocate(kv_bytes);
  v_ = arena.allocate(kv_bytes);
  workspace_ = arena.allocate(workspace_bytes);
  spare_ = arena.allocate(q_bytes);
  for (std::size_t i = 0; i < outputs; ++i) {
    outputs_.push_back(arena.allocate(q_bytes));
    if (with_lse) lse_.push_back(arena.allocate(checked_multiply(problem.rows(), 4)));
  }
}

Operands Workbench::operands(std::size_t output) const {
  const Problem& p = problem_;
  Operands result;
  result.q = contiguous(q_.data(), p.dtype, p.batch, p.n_q, p.heads, p.head_dim);
  result.k = contiguous(k_.data(), p.dtype, p.batch, p.n_kv, p.kv_heads, p.head_dim);
  result.v = contiguous(v_.data(), p.dtype, p.batch, p.n_kv, p.kv_heads, p.head_dim);
  result.o = contiguous(outputs_.at(output).data(), p.dtype, p.batch, p.n_q, p.heads, p.head_dim);
  if (!lse_.empty()) result.lse = static_cast<float*>(lse_.at(output).data());
  return result;
}

void Workbench::poison(std::size_t output) {
  device_->fill_bytes(outputs_.at(output).data(), kPoison, outputs_[output].bytes());
  if (!lse_.empty()) device_->fill_bytes(lse_.at(output).data(), kPoison, lse_[output].bytes());
}

void Workbench::keep(std::size_t output) {
  device_->copy(spare_.data(), outputs_.at(output).data(), spare_.bytes());
}

Tensor Workbench::spare() const {
  const Problem& p = problem_;
  return contiguous(spare_.data(), p.dtype, p.batch, p.n_q, p.heads, p.head_dim);
}

std::vector<double> Workbench::read_rows(std::size_t output, std::span<const RowId> rows) const {
  const Tensor o = operands(output).o;
  const auto d = static_cast<std::size_t>(problem_.head_dim);
  const std::int64_t element = size_of(problem_.dtype);
  const std::int64_t row_bytes = problem_.head_dim * element;
  std::vector<double> values(rows.size() * d);
  const bool whole = rows.size() >= kRowsForWholeCopy;
  std::vector<std::byte> host(
      static_cast<std::size_t>(whole ? outputs_[output].bytes() : row_bytes));
  if (whole) device_->download(host.data(), o.data, outputs_[output].bytes());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::int64_t offset = o.at(rows[r].batch, rows[r].row, rows[r].head, 0);
    if (!whole) {
      device_->download(host.data(), static_cast<const std::byte*>(o.data) + offset * element,
                        row_bytes);
    }
    for (std::size_t c = 0; c < d; ++c) {
      values[r * d + c] = load_element(host.data(), problem_.dtype,
                                       (whole ? offset : 0) + static_cast<std::int64_t>(c));
    }
  }
  return values;
}

}  // namespace flashbench
