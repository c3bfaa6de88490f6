#include "reference/cpu_references.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "arena.h"
#include "error.h"
#include "parallel.h"
#include "reference/openblas.h"

namespace flashbench {
namespace {

constexpr std::int64_t kProductRows = 1024;
constexpr std::int64_t kPage = 4096;

constexpr std::int64_t kLargestStream = std::int64_t{256} << 20;

/// Larger than the caches that one process can call its own; every sample finds them flushed. More
/// would take longer than references are worth.
std::int64_t stream_bytes(const Device& device) {
  const std::int64_t wanted =
      std::clamp(4 * device.info().l2_bytes, std::int64_t{64} << 20, kLargestStream);
  return std::max(std::min(wanted, device.free_bytes() / 8) / kPage * kPage, kPage);
}

/// Calls body(offset, bytes) for a slice a thread.
template <typename Body>
void each_slice(std::int64_t bytes, const Body& body) {
  const std::int64_t slices = cpu_threads();
  const std::int64_t slice = (bytes / slices + kPage) / kPage * kPage;
  parallel_for(slices, [&](std::int64_t i) {
    const std::int64_t offset = std::min(i * slice, bytes);
    body(offset, std::min(slice, bytes - offset));
  });
}

std::uint64_t sum_of(const std::byte* data, std::int64_t bytes) {
  // Independent sums, so that the loop waits for memory and not for its own additions.
  constexpr int kSums = 8;
  std::uint64_t sums[kSums] = {};
  const auto* words = reinterpret_cast<const std::uint64_t*>(data);
  const std::int64_t count = bytes / static_cast<std::int64_t>(sizeof(std::uint64_t));
  for (std::int64_t i = 0; i + kSums <= count; i += kSums) {
    for (int k = 0; k < kSums; ++k) sums[k] += words[i + k];
  }
  std::uint64_t total = 0;
  for (const std::uint64_t sum : sums) total += sum;
  return total;
}

class CpuReferenceBench final : public ReferenceBench {
 public:
  explicit CpuReferenceBench(Device& device) : arena_(device) {
    add_bandwidths(device);
    add_product();
  }

  const std::vector<ReferenceWork>& works() const override { return works_; }

 private:
  void* keep(std::int64_t bytes) {
    buffers_.push_back(arena_.allocate(bytes));
    return buffers_.back().data();
  }

  void add_bandwidths(Device& device) {
    const std::int64_t bytes = stream_bytes(device);
    auto* from = static_cast<std::byte*>(keep(bytes));
    auto* to = static_cast<std::byte*>(keep(bytes));
    const auto once = static_cast<double>(bytes);
    device.fill_bytes(from, 0x5b, bytes);
    works_.push_back({Reference::copy, 2 * once, [=](Stream) {
                        each_slice(bytes, [=](std::int64_t offset, std::int64_t size) {
                          std::memcpy(to + offset, from + offset, static_cast<std::size_t>(size));
                        });
                      }});
    works_.push_back({Reference::read, once, [=, this](Stream) {
                        each_slice(bytes, [=, this](std::int64_t offset, std::int64_t size) {
                          sink_.fetch_xor(sum_of(from + offset, size));
                        });
                      }});
    works_.push_back({Reference::write, once, [=](Stream) {
                        each_slice(bytes, [=](std::int64_t offset, std::int64_t size) {
                          std::memset(to + offset, 0x3c, static_cast<std::size_t>(size));
                        });
                      }});
  }

  /// OpenBLAS runs on the calling thread here, so each thread multiplies its own rows by all of B.
  void add_product() {
    try {
      openblas();
    } catch (const Error&) {
      return;  // not installed: the bandwidths are worth having all the same
    }
    const std::int64_t n = kProductRows;
    const std::int64_t bytes = n * n * static_cast<std::int64_t>(sizeof(float));
    const std::int64_t threads = cpu_threads();
    const std::int64_t rows = n * threads;  // n rows a thread
    auto* a = static_cast<float*>(keep(bytes * threads));
    auto* b = static_cast<float*>(keep(bytes));
    auto* c = static_cast<float*>(keep(bytes * threads));
    std::mt19937 engine(1);  // NOLINT(bugprone-random-generator-seed): the same data every run
    std::normal_distribution<float> normal;
    std::generate_n(a, rows * n, [&] { return normal(engine); });
    std::generate_n(b, n * n, [&] { return normal(engine); });
    const double flops = 2.0 * static_cast<double>(rows * n) * n;
    works_.push_back({Reference::matrix_f32, flops, [=](Stream) {
                        parallel_for(threads, [=](std::int64_t i) {
                          openblas().sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1,
                                           a + i * n * n, n, b, n, 0, c + i * n * n, n);
                        });
                      }});
  }

  Arena arena_;
  std::vector<Buffer> buffers_;
  std::atomic<std::uint64_t> sink_ = 0;
  std::vector<ReferenceWork> works_;
};

}  // namespace

std::unique_ptr<ReferenceBench> make_cpu_reference_bench(Device& device,
                                                         std::span<const Dtype> /*dtypes*/) {
  return std::make_unique<CpuReferenceBench>(device);
}

}  // namespace flashbench
