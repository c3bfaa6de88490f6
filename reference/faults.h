#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace flashbench {

/// One thing that real attention kernels get wrong.
enum class Fault : std::uint8_t {
  none,
  // Which keys
  last_tile_dropped,
  sixty_keys_dropped,
  one_key_dropped,
  tile_twice,
  tiles_counted_for_first_row,
  tail_keys_unmasked,
  tail_keys_clamped,
  stale_keys,
  stale_values,
  // The mask
  mask_one_late,
  mask_one_early,
  mask_top_left,
  mask_missing,
  mask_by_tile,
  mask_finite,
  mask_added,
  // Scores
  scale_missing,
  scale_squared,
  scores_in_dtype,
  scores_clamped,
  head_dim_tail_ignored,
  tf32,
  // Softmax
  exponent_in_base_two,
  exponential_coarse,
  max_from_zero,
  max_missing,
  max_reset,
  max_shared_by_rows,
  output_not_rescaled,
  sum_not_rescaled,
  sum_in_dtype,
  sum_misses_last_tile,
  small_weights_dropped,
  weights_in_fp8,
  weights_in_bf16,
  // The second product
  accumulator_in_dtype,
  tile_missing_in_output,
  value_columns_swapped,
  halves_merged_unweighted,
  // Heads and places
  heads_swapped,
  group_by_modulo,
  batch_ignored,
  blocks_beyond_65535_missing,
  written_heads_first,
  // The end
  not_normalised,
  empty_rows_averaged,
  last_row_torn,
  last_rows_missing,
  output_truncated,
  output_one_ulp_off,
  lse_in_base_two,
  lse_without_max
};

struct FaultEntry {
  Fault fault;
  std::string_view name;         ///< as an implementation's: "mask-one-late"
  std::string_view description;  ///< one line
};

/// All of them but `none`.
std::span<const FaultEntry> faults();

}  // namespace flashbench
