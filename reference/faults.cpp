#include "reference/faults.h"

#include <array>

namespace flashbench {

namespace {

constexpr std::array kFaults{
    FaultEntry{Fault::last_tile_dropped, "last-tile-dropped", "the last key tile is left out"},
    FaultEntry{Fault::sixty_keys_dropped, "sixty-keys-dropped",
               "the last 60 of 4096 keys or more are left out"},
    FaultEntry{Fault::one_key_dropped, "one-key-dropped", "the middle key is left out"},
    FaultEntry{Fault::tile_twice, "tile-twice", "the first key tile counts twice"},
    FaultEntry{Fault::tiles_counted_for_first_row, "tiles-counted-for-first-row",
               "key tiles are counted for the first row of a query tile, not the last"},
    FaultEntry{Fault::tail_keys_unmasked, "tail-keys-unmasked",
               "keys beyond the last count as zeros"},
    FaultEntry{Fault::tail_keys_clamped, "tail-keys-clamped", "keys beyond the last repeat it"},
    FaultEntry{Fault::stale_keys, "stale-keys",
               "the second tile's scores use the first tile's keys"},
    FaultEntry{Fault::stale_values, "stale-values",
               "the second tile's output uses the first tile's values"},
    FaultEntry{Fault::mask_one_late, "mask-one-late", "a row sees one key too many"},
    FaultEntry{Fault::mask_one_early, "mask-one-early", "a row sees one key too few"},
    FaultEntry{Fault::mask_top_left, "mask-top-left", "the mask is aligned top-left"},
    FaultEntry{Fault::mask_missing, "mask-missing", "no mask"},
    FaultEntry{Fault::mask_by_tile, "mask-by-tile", "the tile on the diagonal is not masked"},
    FaultEntry{Fault::mask_finite, "mask-finite", "masked scores are -10000 instead of -infinity"},
    FaultEntry{Fault::mask_added, "mask-added",
               "-infinity is added to masked scores: NaN stays NaN"},
    FaultEntry{Fault::scale_missing, "scale-missing", "scores are not scaled"},
    FaultEntry{Fault::scale_squared, "scale-squared", "scores are scaled twice"},
    FaultEntry{Fault::scores_in_dtype, "scores-in-dtype",
               "scores are rounded to the dtype without saying so"},
    FaultEntry{Fault::scores_clamped, "scores-clamped", "scores are clamped to [-60, 60]"},
    FaultEntry{Fault::head_dim_tail_ignored, "head-dim-tail-ignored",
               "columns beyond the last multiple of 16 are left out of scores"},
    FaultEntry{Fault::tf32, "tf32", "f32 products in tf32"},
    FaultEntry{Fault::exponent_in_base_two, "exponent-in-base-two", "2^x for e^x"},
    FaultEntry{Fault::exponential_coarse, "exponential-coarse", "e^x to a relative error of 0.002"},
    FaultEntry{Fault::max_from_zero, "max-from-zero", "the running maximum starts at 0"},
    FaultEntry{Fault::max_missing, "max-missing", "no maximum is subtracted"},
    FaultEntry{Fault::max_reset, "max-reset", "each tile's maximum replaces the running one"},
    FaultEntry{Fault::max_shared_by_rows, "max-shared-by-rows",
               "one maximum for all rows of a tile"},
    FaultEntry{Fault::output_not_rescaled, "output-not-rescaled",
               "O is not rescaled when the maximum moves"},
    FaultEntry{Fault::sum_not_rescaled, "sum-not-rescaled",
               "l is not rescaled when the maximum moves"},
    FaultEntry{Fault::sum_in_dtype, "sum-in-dtype", "l is kept in the dtype"},
    FaultEntry{Fault::sum_misses_last_tile, "sum-misses-last-tile", "the last tile is not in l"},
    FaultEntry{Fault::small_weights_dropped, "small-weights-dropped",
               "weights under 2^-10 are dropped"},
    FaultEntry{Fault::weights_in_fp8, "weights-in-fp8", "P is rounded to fp8 (e4m3)"},
    FaultEntry{Fault::weights_in_bf16, "weights-in-bf16",
               "P is rounded to bf16 whatever the dtype"},
    FaultEntry{Fault::accumulator_in_dtype, "accumulator-in-dtype",
               "O is kept in the dtype between tiles"},
    FaultEntry{Fault::tile_missing_in_output, "tile-missing-in-output",
               "the second tile is in l but not in O"},
    FaultEntry{Fault::value_columns_swapped, "value-columns-swapped",
               "columns 0 and 1 of V are swapped"},
    FaultEntry{Fault::halves_merged_unweighted, "halves-merged-unweighted",
               "two halves of the keys are averaged without their weights"},
    FaultEntry{Fault::heads_swapped, "heads-swapped", "neighbouring heads are swapped"},
    FaultEntry{Fault::group_by_modulo, "group-by-modulo",
               "query head h reads key head h mod kv_heads"},
    FaultEntry{Fault::batch_ignored, "batch-ignored", "every batch reads the first one's keys"},
    FaultEntry{Fault::blocks_beyond_65535_missing, "blocks-beyond-65535-missing",
               "batch x heads beyond 65535 is not computed"},
    FaultEntry{Fault::written_heads_first, "written-heads-first",
               "O is written as [batch, heads, rows, head_dim]"},
    FaultEntry{Fault::not_normalised, "not-normalised", "O is not divided by l"},
    FaultEntry{Fault::empty_rows_averaged, "empty-rows-averaged",
               "a row without keys averages all values"},
    FaultEntry{Fault::last_row_torn, "last-row-torn", "half of the last row is not written"},
    FaultEntry{Fault::last_rows_missing, "last-rows-missing",
               "a partial query tile is not written"},
    FaultEntry{Fault::output_truncated, "output-truncated",
               "the output is truncated instead of rounded"},
    FaultEntry{Fault::output_one_ulp_off, "output-one-ulp-off", "the output is one ulp too large"},
    FaultEntry{Fault::lse_in_base_two, "lse-in-base-two", "the log-sum-exp is in base 2"},
    FaultEntry{Fault::lse_without_max, "lse-without-max", "the log-sum-exp lacks the maximum"},
};

}  // namespace

std::span<const FaultEntry> faults() {
  return kFaults;
}

}  // namespace flashbench
