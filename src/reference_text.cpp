#include "reference_text.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "units.h"

namespace flashbench {
namespace {

/// Powers of 1000: rates are not sizes.
std::string with_prefix(double value, std::string_view unit) {
  constexpr std::array<std::pair<double, std::string_view>, 5> kPrefixes{
      {{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
  for (const auto& [size, prefix] : kPrefixes) {
    if (value >= 0.9995 * size) {
      return fmt::format("{} {}{}", format_significant(value / size), prefix, unit);
    }
  }
  return fmt::format("{} {}", format_significant(value), unit);
}

}  // namespace

std::string format_rate(Reference reference, double rate) {
  const std::string_view kind = unit(reference);
  if (kind == "bytes_per_s") return with_prefix(rate, "B/s");
  if (kind == "flops_per_s") return with_prefix(rate, "FLOP/s");
  return with_prefix(rate, "exp/s");
}

std::string name_of(Reference reference) {
  switch (reference) {
    case Reference::copy:
    case Reference::read:
    case Reference::write:
    case Reference::exp2: return std::string(to_string(reference));
    case Reference::matrix_f32: return "f32 matrix product";
    case Reference::matrix_tf32: return "tf32 matrix product";
    case Reference::matrix_f16: return "f16 matrix product";
    case Reference::matrix_bf16: return "bf16 matrix product";
    case Reference::fma_f32: return "f32 multiply-add";
  }
  return "?";
}

std::string describe(const References& references) {
  std::string text;
  for (const auto& [reference, rate] : references.rates) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(reference),
                        format_rate(reference, rate.rate));
  }
  return text;
}

}  // namespace flashbench
