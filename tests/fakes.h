#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device.h"
#include "dtype.h"
#include "error.h"
#include "implementation.h"
#include "plain_attention.h"

// A device and implementations without hardware, for tests of the harness.

namespace flashbench {

/// Host memory of a stated size and a clock that only advance() moves.
class FakeDevice : public Device {
 public:
  explicit FakeDevice(std::int64_t memory_bytes = std::int64_t{8} << 30,
                      DeviceKind kind = DeviceKind::cpu)
      : total_(memory_bytes) {
    info_.kind = kind;
    info_.name = "fake";
    info_.memory_bytes = memory_bytes;
    info_.l2_bytes = 1 << 20;
    info_.sm_count = 1;
  }
  ~FakeDevice() override {
    for (const auto& [data, bytes] : live_) std::free(data);
  }
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(const FakeDevice&) = delete;

  const DeviceInfo& info() const override { return info_; }
  DeviceInfo& mutable_info() { return info_; }

  void* allocate(std::int64_t bytes) override {
    if (bytes > refuse_above_ || bytes > free_bytes()) {
      throw OutOfMemory("fake device is full", bytes, free_bytes());
    }
    void* data = std::aligned_alloc(256, static_cast<std::size_t>((bytes + 255) / 256 * 256));
    if (data == nullptr) throw OutOfMemory("host is full", bytes, 0);
    live_[data] = bytes;
    used_ += bytes;
    return data;
  }
  void deallocate(void* data) noexcept override {
    used_ -= live_.at(data);
    live_.erase(data);
    std::free(data);
  }
  std::int64_t free_bytes() const override { return total_ - used_; }
  std::size_t live_allocations() const { return live_.size(); }
  /// Makes single allocations above `bytes` fail although they seem to fit.
  void refuse_above(std::int64_t bytes) { refuse_above_ = bytes; }
  /// Memory that an implementation took without the arena.
  void take_behind_the_harness(std::int64_t bytes) { used_ += bytes; }

  void download(void* host, const void* device, std::int64_t bytes) override {
    copy(host, device, bytes);
  }
  void upload(void* device, const void* host, std::int64_t bytes) override {
    copy(device, host, bytes);
  }
  void copy(void* to, const void* from, std::int64_t bytes) override {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  void fill_bytes(void* device, std::uint8_t value, std::int64_t bytes) override {
    std::memset(device, value, static_cast<std::size_t>(bytes));
  }

  Stream stream() const override { return nullptr; }
  void synchronize() override {
    if (lost_) throw DeviceLost("fake device: an illegal address was accessed");
  }
  void lose() { lost_ = true; }

  Sample time(const Enqueue& enqueue, CacheState /*cache*/) override {
    const double before = now_;
    enqueue(nullptr);
    synchronize();
    return {now_ - before, std::nullopt};
  }
  void flush_cache() override {}
  void advance(double seconds) { now_ += seconds; }

 private:
  DeviceInfo info_;
  std::int64_t total_;
  std::int64_t used_ = 0;
  std::int64_t refuse_above_ = std::int64_t{1} << 62;
  std::map<void*, std::int64_t> live_;
  double now_ = 0;
  bool lost_ = false;
};

/// Attention by its definition, written to O: right on host memory.
inline void plain_attention_into(const Problem& problem, const Operands& operands) {
  const PlainAttention plain = plain_attention(problem, operands, Arithmetic{});
  std::size_t index = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    for (std::int64_t i = 0; i < problem.n_q; ++i) {
      for (std::int64_t h = 0; h < problem.heads; ++h) {
        for (std::int64_t c = 0; c < problem.head_dim; ++c) {
          store_element(operands.o.data, problem.dtype, operands.o.at(b, i, h, c),
                        static_cast<float>(plain.out[index++]));
        }
      }
    }
  }
}

/// An implementation whose behaviour is data.
class FakeImplementation : public Implementation {
 public:
  FakeImplementation(std::string name, Kind kind,
                     std::function<void(const Problem&, const Operands&)> run)
      : name_(std::move(name)), kind_(kind), run_(std::move(run)) {}

  std::function<std::optional<std::string>(const Problem&)> unsupported_fn;
  std::function<std::int64_t(const Problem&)> workspace_fn;
  Arithmetic arithmetic_value{.weights_in_dtype = false};
  std::vector<std::string> step_names{"attention"};

  std::string_view name() const override { return name_; }
  std::string_view description() const override { return "a fake"; }
  DeviceKind device() const override { return DeviceKind::cpu; }
  Kind kind() const override { return kind_; }
  std::optional<std::string> unsupported(const Problem& problem, const DeviceInfo&) const override {
    return unsupported_fn ? unsupported_fn(problem) : std::nullopt;
  }
  Arithmetic arithmetic(const Problem&) const override { return arithmetic_value; }
  std::int64_t workspace_bytes(const Problem& problem, const DeviceInfo&) const override {
    return workspace_fn ? workspace_fn(problem) : 0;
  }
  std::optional<std::vector<StepModel>> model(const Problem&, const DeviceInfo&) const override {
    return std::nullopt;
  }
  /// The last step computes; the others only exist.
  Plan plan(const Problem& problem, const Operands& operands, void*, Device&) const override {
    Plan plan;
    for (const std::string& step : step_names) plan.steps.push_back({step, [](Stream) {}});
    plan.steps.back().enqueue = [this, problem, operands](Stream) { run_(problem, operands); };
    return plan;
  }

 private:
  std::string name_;
  Kind kind_;
  std::function<void(const Problem&, const Operands&)> run_;
};

}  // namespace flashbench
