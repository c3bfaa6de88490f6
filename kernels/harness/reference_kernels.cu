#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/common/cuda_check.h"
#include "kernels/harness/reference_kernels.h"

namespace flashbench {
namespace {

// Not the sum of anything that is read here, as far as the compiler can know.
constexpr std::uint32_t kImpossible = 0x12345678U;

/// Each block reads its own stretch of kWords * blockDim words of 16 bytes.
template <int kWords>
__global__ void read_stretches(const uint4* __restrict__ data, std::uint32_t* sink) {
  const std::size_t first = std::size_t{blockIdx.x} * blockDim.x * kWords + threadIdx.x;
  uint4 words[kWords];
#pragma unroll
  for (int k = 0; k < kWords; ++k) words[k] = data[first + std::size_t{blockDim.x} * k];
  std::uint32_t sum = 0;
#pragma unroll
  for (int k = 0; k < kWords; ++k) sum ^= words[k].x ^ words[k].y ^ words[k].z ^ words[k].w;
  if (sum == kImpossible) *sink = sum;
}

__global__ void write_words(uint4* __restrict__ data) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const auto low = static_cast<std::uint32_t>(i);
  data[i] = {low, low * 2654435761U, ~low, low ^ 0x9e3779b9U};
}

/// Threads of a block and blocks of an SM that fill every architecture's pipes.
constexpr int kThreads = 512;
constexpr int kBlocksPerSm = 2;

constexpr int kFmaChains = 16;
constexpr int kFmaSteps = 4096;

__global__ void __launch_bounds__(kThreads) multiply_add(float a, float b, std::uint32_t* sink) {
  float x[kFmaChains];
#pragma unroll
  for (int i = 0; i < kFmaChains; ++i) x[i] = 1e-3F * static_cast<float>(threadIdx.x + i);
#pragma unroll 4
  for (int step = 0; step < kFmaSteps; ++step) {
#pragma unroll
    for (int i = 0; i < kFmaChains; ++i) x[i] = fmaf(x[i], a, b);
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kFmaChains; ++i) sum += x[i];
  if (sum == -1.0F) *sink = kImpossible;  // the chains converge to b / (1 - a) > 0
}

constexpr int kExpChains = 8;
constexpr int kExpSteps = 1024;

__device__ float exp2_approx(float x) {
  float y;
  asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__global__ void __launch_bounds__(kThreads) exponentials(std::uint32_t* sink) {
  float x[kExpChains];
#pragma unroll
  for (int i = 0; i < kExpChains; ++i) x[i] = 1e-3F * static_cast<float>(threadIdx.x + i);
#pragma unroll 4
  for (int step = 0; step < kExpSteps; ++step) {
#pragma unroll
    for (int i = 0; i < kExpChains; ++i) x[i] = exp2_approx(-x[i]);  // towards 0.641
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kExpChains; ++i) sum += x[i];
  if (sum == -1.0F) *sink = kImpossible;
}

/// One of a pair of standard normals (Box and Muller 1958) of a counter mixed by SplitMix64
/// (Steele, Lea and Flood 2014).
__device__ float normal(std::uint64_t counter) {
  std::uint64_t z = (counter + 1) * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  z ^= z >> 31;
  const float radius = static_cast<float>((z >> 40) + 1) * 0x1p-24F;  // (0, 1]
  const float angle = static_cast<float>(z & 0xffffffU) * 0x1p-24F;
  return sqrtf(-2 * logf(radius)) * cospif(2 * angle);
}

template <typename Element>
__global__ void fill_normal(Element* data, std::size_t count, std::uint32_t seed) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    data[i] = static_cast<Element>(normal((std::uint64_t{seed} << 40) + i));
  }
}

}  // namespace

void launch_reference_read(const void* data, std::size_t bytes, std::uint32_t* sink,
                           cudaStream_t stream) {
  constexpr int kWords = 8;
  constexpr unsigned kReadThreads = 512;
  const std::size_t blocks = bytes / (sizeof(uint4) * kWords * kReadThreads);
  read_stretches<kWords><<<static_cast<unsigned>(blocks), kReadThreads, 0, stream>>>(
      static_cast<const uint4*>(data), sink);
  CUDA_CHECK(cudaGetLastError());
}

void launch_reference_write(void* data, std::size_t bytes, cudaStream_t stream) {
  constexpr unsigned kWriteThreads = 512;
  const std::size_t blocks = bytes / (sizeof(uint4) * kWriteThreads);
  write_words<<<static_cast<unsigned>(blocks), kWriteThreads, 0, stream>>>(
      static_cast<uint4*>(data));
  CUDA_CHECK(cudaGetLastError());
}

double launch_reference_fma(int sm_count, std::uint32_t* sink, cudaStream_t stream) {
  const int blocks = sm_count * kBlocksPerSm;
  multiply_add<<<blocks, kThreads, 0, stream>>>(0.99F, 0.01F, sink);
  CUDA_CHECK(cudaGetLastError());
  return static_cast<double>(blocks) * kThreads * kFmaChains * kFmaSteps;
}

double launch_reference_exp2(int sm_count, std::uint32_t* sink, cudaStream_t stream) {
  const int blocks = sm_count * kBlocksPerSm;
  exponentials<<<blocks, kThreads, 0, stream>>>(sink);
  CUDA_CHECK(cudaGetLastError());
  return static_cast<double>(blocks) * kThreads * kExpChains * kExpSteps;
}

void launch_fill_normal(void* data, Dtype dtype, std::size_t count, std::uint32_t seed,
                        cudaStream_t stream) {
  constexpr unsigned kBlocks = 2048;
  constexpr unsigned kFillThreads = 256;
  switch (dtype) {
    case Dtype::f32:
      fill_normal<<<kBlocks, kFillThreads, 0, stream>>>(static_cast<float*>(data), count, seed);
      break;
    case Dtype::f16:
      fill_normal<<<kBlocks, kFillThreads, 0, stream>>>(static_cast<__half*>(data), count, seed);
      break;
    case Dtype::bf16:
      fill_normal<<<kBlocks, kFillThreads, 0, stream>>>(static_cast<__nv_bfloat16*>(data), count,
                                                        seed);
      break;
  }
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace flashbench
