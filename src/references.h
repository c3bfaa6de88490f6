#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "device.h"
#include "dtype.h"
#include "implementation.h"
#include "load.h"

namespace flashbench {

/// What this device does when it does one thing only. A reference, not a ceiling: a short window
/// or a better kernel can pass it.
enum class Reference : std::uint8_t {
  copy,        ///< bytes read plus bytes written
  read,        ///< bytes
  write,       ///< bytes
  matrix_f32,  ///< operations of the vendor's matrix product on random data, without TF32
  matrix_tf32,
  matrix_f16,
  matrix_bf16,
  fma_f32,  ///< operations, two a fused multiply-add
  exp2,     ///< exponentials of the unit that has them
};
std::string_view to_string(Reference reference);
/// "bytes_per_s", "flops_per_s" or "exps_per_s".
std::string_view unit(Reference reference);
/// The matrix product that goes with a step's unit; nothing for none.
std::optional<Reference> matrix_reference(MatrixUnit unit);

struct ReferenceRate {
  double rate = 0;  ///< the newest measurement, in unit() of the reference
  double low = 0;   ///< 95 % confidence interval
  double high = 0;
  std::optional<double> sm_clock_hz;
  std::vector<double> history;  ///< every measurement of the run, oldest first
};

struct References {
  Load load = Load::burst;
  std::map<Reference, ReferenceRate> rates;

  std::optional<double> rate(Reference reference) const;
  /// Bytes per second of a mix of reads and writes: the reciprocals of read, copy and write
  /// interpolated over the written share (0, 1/2, 1). What is missing of the three is taken from
  /// copy. Nothing without copy.
  std::optional<double> bandwidth(double read_bytes, double write_bytes) const;
  /// Operations per second of a unit. Products in f32 run on the FMA units; where a device knows
  /// only its library's rate (a CPU), that is what there is.
  std::optional<double> matrix_rate(MatrixUnit unit) const;
  /// Largest ratio of two measurements of one reference in the run, less 1. 0 if measured once.
  double drift() const;
  /// Takes a later measurement's rates and appends them to the history.
  void add(const References& later);
};

/// Work of a known amount, all of it one thing.
struct ReferenceWork {
  Reference what;
  double amount = 0;
  Enqueue work;
};

/// A device's reference works and the buffers that they run on.
class ReferenceBench {
 public:
  ReferenceBench() = default;
  ReferenceBench(const ReferenceBench&) = delete;
  ReferenceBench& operator=(const ReferenceBench&) = delete;
  virtual ~ReferenceBench() = default;
  virtual const std::vector<ReferenceWork>& works() const = 0;
};

/// Times every work of the bench, interleaved. `budget_s` bounds the sampling of one work.
/// References without samples (stopped) are absent.
References measure_references(Device& device, const ReferenceBench& bench, Load load,
                              double budget_s, const std::atomic<bool>& stop);

}  // namespace flashbench
