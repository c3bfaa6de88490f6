#include "kernels/common/cuda_check.h"
#include "kernels/harness/launches.h"

namespace flashbench {
namespace {

__device__ std::uint64_t globaltimer() {
  std::uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

struct Instant {
  std::uint64_t cycles;
  std::uint64_t nanoseconds;
};

/// The cycle counter at the next tick of the timer. The timer ticks coarsely (32 ns to 1 us by
/// architecture), so both ends of a reading are taken on an edge.
__device__ Instant next_tick() {
  const std::uint64_t now = globaltimer();
  std::uint64_t tick = now;
  while (tick == now) tick = globaltimer();
  return {static_cast<std::uint64_t>(clock64()), tick};
}

/// The start of a reading: the second tick, because the first finds this code outside the
/// instruction cache, which costs 100 ns between the tick and the cycle counter.
__device__ Instant first_tick() {
  Instant tick{};
#pragma unroll 1
  for (int i = 0; i < 2; ++i) tick = next_tick();
  return tick;
}

__device__ ClockReading between(Instant begin, Instant end) {
  return {end.cycles - begin.cycles, end.nanoseconds - begin.nanoseconds};
}

__global__ void gate(GatePage* page, std::uint32_t ticket) {
  const volatile std::uint32_t* open = &page->open;
  const Instant begin = first_tick();
  std::uint64_t waited = 0;
  while (waited < kLeastProbeNanoseconds || (*open != ticket && waited < kLongestGateNanoseconds)) {
    waited = globaltimer() - begin.nanoseconds;
  }
  page->before = between(begin, next_tick());
  page->timed_out = *open != ticket;
  __threadfence_system();
}

__global__ void clock_probe(GatePage* page) {
  const Instant begin = first_tick();
  while (globaltimer() - begin.nanoseconds < kLeastProbeNanoseconds) {
  }
  page->after = between(begin, next_tick());
  __threadfence_system();
}

/// data: [count] 16-byte words.
__global__ void read_all(const uint4* __restrict__ data, std::size_t count, std::uint32_t* sink) {
  constexpr int kUnroll = 4;
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  std::uint32_t sum = 0;
  std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i + (kUnroll - 1) * stride < count; i += kUnroll * stride) {
    uint4 words[kUnroll];
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) words[k] = data[i + k * stride];
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) sum ^= words[k].x ^ words[k].y ^ words[k].z ^ words[k].w;
  }
  for (; i < count; i += stride) {
    const uint4 word = data[i];
    sum ^= word.x ^ word.y ^ word.z ^ word.w;
  }
  // Never true of a buffer of one repeated byte (the xor of equal words is that word or 0), but the
  // compiler cannot know, so the loads stay.
  if (sum == 0x12345678U) *sink = sum;
}

__global__ void nothing() {}

}  // namespace

void launch_gate(GatePage* page, std::uint32_t ticket, cudaStream_t stream) {
  gate<<<1, 1, 0, stream>>>(page, ticket);
  CUDA_CHECK(cudaGetLastError());
}

void launch_clock_probe(GatePage* page, cudaStream_t stream) {
  clock_probe<<<1, 1, 0, stream>>>(page);
  CUDA_CHECK(cudaGetLastError());
}

void launch_read(const void* data, std::size_t bytes, std::uint32_t* sink, cudaStream_t stream) {
  constexpr unsigned kBlocks = 1024;
  constexpr unsigned kThreads = 512;
  read_all<<<kBlocks, kThreads, 0, stream>>>(static_cast<const uint4*>(data), bytes / sizeof(uint4),
                                             sink);
  CUDA_CHECK(cudaGetLastError());
}

void launch_nothing(cudaStream_t stream) {
  nothing<<<1, 1, 0, stream>>>();
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace flashbench
