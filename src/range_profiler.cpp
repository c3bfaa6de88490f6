#include "range_profiler.h"

namespace flashbench {

std::string_view to_string(Quantity quantity) {
  switch (quantity) {
    case Quantity::dram_read_bytes: return "dram_read_bytes";
    case Quantity::dram_write_bytes: return "dram_write_bytes";
    case Quantity::l2_bytes: return "l2_bytes";
    case Quantity::tensor_bf16_ops: return "tensor_bf16_ops";
    case Quantity::tensor_f16_ops: return "tensor_f16_ops";
    case Quantity::tensor_tf32_ops: return "tensor_tf32_ops";
    case Quantity::f32_ops: return "f32_ops";
    case Quantity::special_ops: return "special_ops";
    case Quantity::tensor_active: return "tensor_active";
    case Quantity::duration_s: return "duration_s";
  }
  return "?";
}

}  // namespace flashbench
