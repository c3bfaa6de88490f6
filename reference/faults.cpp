#include "reference/faults.h"

namespace flashbench {

namespace {

constexpr FaultEntry kFaults[] = {
    {Fault::last_tile_dropped, "last-tile-dropped", "the last key tile is left out"},
    {Fault::sixty_keys_dropped, "sixty-keys-dropped",
     "the last 60 of 4096 keys or more are left out"},
    {Fault::one_key_dropped, "one-key-dropped", "the middle key is left out"},
    {Fault::tile_twice, "tile-twice", "the first key tile counts twice"},
    {Fault::tiles_counted_for_first_row, "tiles-counted-for-first-row",
     "key tiles are counted for the first row of a query tile, not the last"},
    {Fault::tail_keys_unmasked, "tail-keys-unmasked", "keys beyond the last count as zeros"},
    {Fault::tail_keys_clamped, "tail-keys-clamped", "keys beyond the last repeat it"},
    {Fault::stale_keys, "stale-keys", "the second tile's scores use the first tile's keys"},
    {Fault::stale_values, "stale-values", "the second tile's output uses the first tile's values"},
    {Fault::mask_one_late, "mask-one-late", "a row sees one key too many"},
    {Fault::mask_one_early, "mask-one-early", "a row sees one key too few"},
    {Fault::mask_top_left, "mask-top-left", "the mask is aligned top-left"},
    {Fault::mask_missing, "mask-missing", "no mask"},
    {Fault::mask_by_tile, "mask-by-tile", "the tile on the diagonal is not masked"},
    {Fault::mask_finite, "mask-finite", "masked scores are -10000 instead of -infinity"},
    {Fault::mask_added, "mask-added", "-infinity is added to masked scores: NaN stays NaN"},
    {Fault::scale_missing, "scale-missing", "scores are not scaled"},
    {Fault::scale_squared, "scale-squared", "scores are scaled twice"},
    {Fault::scores_in_dtype, "scores-in-dtype",
     "scores are rounded to the dtype without saying so"},
    {Fault::scores_clamped, "scores-clamped", "scores are clamped to [-60, 60]"},
    {Fault::head_dim_tail_ignored, "head-dim-tail-ignored",
     "columns beyond the last multiple of 16 are left out of scores"},
    {Fault::tf32, "tf32", "f32 products in tf32"},
    {Fault::exponent_in_base_two, "exponent-in-base-two", "2^x for e^x"},
    {Fault::exponential_coarse, "exponential-coarse", "e^x to a relative error of 0.002"},
    {Fault::max_from_zero, "max-from-zero", "the running maximum starts at 0"},
    {Fault::max_missing, "max-missing", "no maximum is subtracted"},
    {Fault::max_reset, "max-reset", "each tile's maximum replaces the running one"},
    {Fault::max_shared_by_rows, "max-shared-by-rows", "one maximum for all rows of a tile"},
    {Fault::output_not_rescaled, "output-not-rescaled", "O is not rescaled when the maximum moves"},
    {Fault::sum_not_rescaled, "sum-not-rescaled", "l is not rescaled when the maximum moves"},
    {Fault::sum_in_dtype, "sum-in-dtype", "l is kept in the dtype"},
    {Fault::sum_misses_last_tile, "sum-misses-last-tile", "the last tile is not in l"},
    {Fault::small_weights_dropped, "small-weights-dropped", "weights under 2^-10 are dropped"},
    {Fault::weights_in_fp8, "weights-in-fp8", "P is rounded to fp8 (e4m3)"},
    {Fault::weights_in_bf16, "weights-in-bf16", "P is rounded to bf16 whatever the dtype"},
    {Fault::accumulator_in_dtype, "accumulator-in-dtype", "O is kept in the dtype between tiles"},
    {Fault::tile_missing_in_output, "tile-missing-in-output",
     "the second tile is in l but not in O"},
    {Fault::value_columns_swapped, "value-columns-swapped", "columns 0 and 1 of V are swapped"},
    {Fault::halves_merged_unweighted, "halves-merged-unweighted",
     "two halves of the keys are averaged without their weights"},
    {Fault::heads_swapped, "heads-swapped", "neighbouring heads are swapped"},
    {Fault::group_by_modulo, "group-by-modulo", "query head h reads key head h mod kv_heads"},
    {Fault::batch_ignored, "batch-ignored", "every batch reads the first one's keys"},
    {Fault::blocks_beyond_65535_missing, "blocks-beyond-65535-missing",
     "batch x heads beyond 65535 is not computed"},
    {Fault::written_heads_first, "written-heads-first",
     "O is written as [batch, heads, rows, head_dim]"},
    {Fault::not_normalised, "not-normalised", "O is not divided by l"},
    {Fault::empty_rows_averaged, "empty-rows-averaged", "a row without keys averages all values"},
    {Fault::last_row_torn, "last-row-torn", "half of the last row is not written"},
    {Fault::last_rows_missing, "last-rows-missing", "a partial query tile is not written"},
    {Fault::output_truncated, "output-truncated", "the output is truncated instead of rounded"},
    {Fault::output_one_ulp_off, "output-one-ulp-off", "the output is one ulp too large"},
    {Fault::lse_in_base_two, "lse-in-base-two", "the log-sum-exp is in base 2"},
    {Fault::lse_without_max, "lse-without-max", "the log-sum-exp lacks the maximum"},
};

}  // namespace

std::span<const FaultEntry> faults() {
  return kFaults;
}

}  // namespace flashbench
