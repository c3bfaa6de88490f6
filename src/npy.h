#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dtype.h"

namespace flashbench {

/// An array as NumPy saves it (format versions 1 to 3 of numpy.lib.format), in row-major order.
struct NpyArray {
  Dtype dtype = Dtype::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> data;  ///< elements in C order, whatever the file's order was

  std::int64_t elements() const;
};

/// How a file's four axes are meant.
enum class NpyLayout : std::uint8_t { bnhd, bhnd };
/// "bnhd" or "bhnd"; throws UsageError naming both.
NpyLayout parse_npy_layout(std::string_view name);

/// float32 ('<f4'), float16 ('<f2'), and bfloat16 as ml_dtypes saves it ('bfloat16', or its raw
/// '<V2') or as its bits ('<u2'). Any other type, float8 among them, any byte order but little and
/// any malformed file: UsageError with one line that names the file and what is wrong. A file that
/// cannot be read: Error with errno's text.
NpyArray read_npy(const std::string& path);

/// The same from the bytes of a file; `name` stands for it in messages.
NpyArray parse_npy(std::string_view bytes, const std::string& name);

/// `array` with its four axes in the order batch, rows, heads, head_dim. Three axes are taken as
/// one batch, two as one batch and one head. UsageError where it has another number of axes.
NpyArray to_bnhd(const NpyArray& array, NpyLayout layout, const std::string& name);

/// A file that read_npy() and NumPy read: bf16 as '<u2' bits, lse and other f32 as '<f4'. Throws
/// Error with errno's text.
void write_npy(const std::string& path, const NpyArray& array);
/// The bytes that write_npy() writes.
std::string format_npy(const NpyArray& array);

}  // namespace flashbench
