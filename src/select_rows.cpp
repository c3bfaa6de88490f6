#include <algorithm>
#include <cmath>
#include <tuple>

#include "exactness.h"
#include "input_values.h"

namespace flashbench {

namespace {

constexpr std::int64_t kFewestRows = 256;
constexpr std::int64_t kMostRows = 8192;

/// Query rows where kernels go wrong: both ends, the edges of tiles of 16 to 256 rows counted from
/// either end, and the first rows that see a key.
std::vector<std::int64_t> critical_rows(const Problem& problem) {
  std::vector<std::int64_t> rows;
  const auto add = [&](std::int64_t row) {
    if (row >= 0 && row < problem.n_q) rows.push_back(row);
  };
  for (const std::int64_t tile : {0, 16, 64, 128, 192, 256}) {
    for (const std::int64_t near : {-1, 0, 1}) {
      add(tile + near);
      add(problem.n_q - 1 - tile + near);
      add(problem.n_q / 2 / 64 * 64 + tile / 4 + near);
      add((problem.n_q - 1) / 128 * 128 + near);
      if (problem.mask == Mask::causal) add(problem.n_q - problem.n_kv + near);
    }
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

}  // namespace

std::vector<RowId> select_rows(const Problem& problem, double budget, std::uint64_t seed) {
  const std::int64_t total = problem.rows();
  const double per_row = kOracleOperations * static_cast<double>(problem.head_dim) *
                         std::max(1.0, problem.exps() / static_cast<double>(total));
  const double affordable = budget / per_row;
  std::vector<RowId> rows;
  const auto head_of = [&](std::int64_t i) {
    return std::pair(i / problem.heads, i % problem.heads);
  };
  const std::int64_t all_heads = problem.batch * problem.heads;
  if (affordable >= static_cast<double>(total) || total <= kFewestRows) {
    rows.reserve(static_cast<std::size_t>(total));
    for (std::int64_t i = 0; i < all_heads; ++i) {
      const auto [batch, head] = head_of(i);
      for (std::int64_t row = 0; row < problem.n_q; ++row) rows.push_back({batch, head, row});
    }
    return rows;
  }

  // Critical rows, each in a head of its own as far as there are enough: a step near the golden
  // section of the number of heads spreads any number of them evenly, the first and last head
  // included.
  const auto wanted = static_cast<std::size_t>(std::clamp<double>(
      affordable, static_cast<double>(kFewestRows), static_cast<double>(kMostRows)));
  const auto spread = [&](std::size_t k) {
    constexpr double kGolden = 0.6180339887498949;
    const double place = std::fmod(static_cast<double>(k) * kGolden, 1.0);
    return std::min(all_heads - 1,
                    static_cast<std::int64_t>(place * static_cast<double>(all_heads)));
  };
  std::size_t k = 0;
  const auto add = [&](std::int64_t head_index, std::int64_t row) {
    const auto [batch, head] = head_of(head_index);
    rows.push_back({batch, head, row});
  };
  for (const std::int64_t row : critical_rows(problem)) add(spread(k++), row);
  add(0, 0);
  add(all_heads - 1, problem.n_q - 1);
  const auto order = [](const RowId& row) { return std::tuple(row.batch, row.head, row.row); };
  const auto sort_unique = [&] {
    std::sort(rows.begin(), rows.end(),
              [&](const RowId& a, const RowId& b) { return order(a) < order(b); });
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  };
  sort_unique();
  for (std::uint64_t round = 0; rows.size() < wanted; ++round) {
    const std::size_t missing = wanted - rows.size();
    for (std::size_t i = 0; i < missing; ++i) {
      const std::uint64_t bits = random_bits(seed, 0x726f7773ULL + round, i);
      add(spread(k++),
          static_cast<std::int64_t>((bits >> 1U) % static_cast<std::uint64_t>(problem.n_q)));
    }
    sort_unique();
  }
  return rows;
}

}  // namespace flashbench
