#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernels/common/convert.cuh"
#include "kernels/common/cuda_check.h"
#include "reference/device_array.h"
#include "reference/oracle_row.h"
#include "reference/oracle_rows.h"

// The float64 truth of some rows in six kernels, three of them passes over the keys. A pass gives
// each block one chunk of the keys of one row; its partial result is merged by the kernel after it,
// in a fixed order, so that results repeat bit for bit. Scores are kept between passes, 16 bytes a
// pair, so rows come in batches.
//
//   scores_kernel   s_j and its dot product's magnitude; a chunk's largest score
//   merge_peaks     m
//   outputs_kernel  a chunk's sum of exp(s_j - m) and of exp(s_j - m) v_j
//   merge_outputs   l, o, lse
//   spreads_kernel  a chunk's ColumnSums round o
//   merge_spreads   the sums that Oracle::rows returns

namespace flashbench {

namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kPairsPerBatch = std::int64_t{1} << 24;  // 256 MiB of scores
constexpr std::int64_t kPartialBytes = std::int64_t{1} << 28;
constexpr std::int64_t kChunkKeys = 256;        // keys in a chunk are a multiple of this
constexpr std::int64_t kBlocksPerBatch = 2048;  // enough for every SM to have several

/// One row of the batch. Offsets are in elements.
struct DeviceRow {
  std::int64_t q = 0;
  std::int64_t k = 0;  // of key 0
  std::int64_t v = 0;
  std::int64_t visible = 0;
  std::int64_t pairs = 0;  // of key 0 in the batch's scores
};

/// What a batch's kernels share.
struct Batch {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  std::int64_t k_stride = 0;  // from key to key
  std::int64_t v_stride = 0;
  int head_dim = 0;
  int chunks = 0;  // of a row, at least 1
  std::int64_t chunk_keys = 0;
  double scale = 0;
  double root_dim = 0;
  double storage[2] = {0, 0};
  int storages = 1;

  const DeviceRow* rows = nullptr;      // [rows]
  double* s = nullptr;                  // [pairs]
  double* dot = nullptr;                // [pairs]
  RowPeak* partial_peaks = nullptr;     // [rows, chunks]
  RowPeak* peaks = nullptr;             // [rows]
  double* partial_l = nullptr;          // [rows, chunks]
  double* partial_out = nullptr;        // [rows, chunks, head_dim]
  double* out = nullptr;                // [rows, head_dim]
  double* lse = nullptr;                // [rows]
  RowSums* partial_row_sums = nullptr;  // [rows, chunks, 2]
  double* lse_bounds = nullptr;         // [rows, 2]
  ColumnSums* partial_sums = nullptr;   // [rows, chunks, head_dim]
  ColumnSums* sums = nullptr;           // [rows, head_dim]
};

struct Chunk {
  std::int64_t row;
  std::int64_t first;  // keys [first, last), both within what the row sees
  std::int64_t last;
};

__device__ Chunk my_chunk(const Batch& batch) {
  const std::int64_t row = blockIdx.x / batch.chunks;
  const std::int64_t first = (blockIdx.x % batch.chunks) * batch.chunk_keys;
  const std::int64_t visible = batch.rows[row].visible;
  return {row, min(first, visible), min(first + batch.chunk_keys, visible)};
}

/// Eight lanes a key; grid rows * chunks.
template <class Element>
__global__ void __launch_bounds__(kThreads) scores_kernel(Batch batch) {
  constexpr int kLanes = 8;
  constexpr int kKeys = kThreads / kLanes;
  extern __shared__ double s_q[];  // [head_dim]
  __shared__ RowPeak s_peaks[kKeys];
  const Chunk chunk = my_chunk(batch);
  const DeviceRow& row = batch.rows[chunk.row];
  const auto* q = static_cast<const Element*>(batch.q) + row.q;
  for (int c = threadIdx.x; c < batch.head_dim; c += kThreads) s_q[c] = to_float(q[c]);
  __syncthreads();

  const int lane = threadIdx.x % kLanes;
  const int slot = threadIdx.x / kLanes;
  RowPeak peak;
  // All lanes of a warp take part in the shuffles, so the loop's bound is common to the block.
  for (std::int64_t tile = chunk.first; tile < chunk.last; tile += kKeys) {
    const std::int64_t key = tile + slot;
    double sum = 0;
    double magnitude = 0;
    if (key < chunk.last) {
      const auto* k = static_cast<const Element*>(batch.k) + row.k + key * batch.k_stride;
      for (int c = lane; c < batch.head_dim; c += kLanes) {
        const double product = s_q[c] * static_cast<double>(to_float(k[c]));
        sum += product;
        magnitude += fabs(product);
      }
    }
    for (int step = kLanes / 2; step > 0; step /= 2) {
      sum += __shfl_xor_sync(0xffffffffU, sum, step);
      magnitude += __shfl_xor_sync(0xffffffffU, magnitude, step);
    }
    if (lane == 0 && key < chunk.last) {
      const double s = batch.scale * sum;
      const double dot = batch.scale * magnitude;
      batch.s[row.pairs + key] = s;
      batch.dot[row.pairs + key] = dot;
      observe_score(peak, s, dot, key);
    }
  }
  if (lane == 0) s_peaks[slot] = peak;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < kKeys; ++i) peak = merge_peaks(peak, s_peaks[i]);
    batch.partial_peaks[blockIdx.x] = peak;
  }
}

/// A thread a row.
__global__ void merge_peaks_kernel(Batch batch, std::int64_t rows) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  RowPeak peak;
  for (int i = 0; i < batch.chunks; ++i) {
    peak = merge_peaks(peak, batch.partial_peaks[row * batch.chunks + i]);
  }
  batch.peaks[row] = peak;
}

/// The block's threads as groups of one thread a column: every group takes each kGroups-th key of a
/// tile. Head dimensions beyond the block's threads are taken a block's width at a time.
struct ColumnGroups {
  int width;   // columns at a time
  int groups;  // keys at a time
  int group;   // mine; at least `groups` where I have none
  int column;

  __device__ explicit ColumnGroups(int head_dim)
      : width(min(head_dim, kThreads)),
        groups(kThreads / width),
        group(static_cast<int>(threadIdx.x) / width),
        column(static_cast<int>(threadIdx.x) % width) {}
};

/// Grid rows * chunks.
template <class Element>
__global__ void __launch_bounds__(kThreads) outputs_kernel(Batch batch) {
  __shared__ double s_p[kThreads];
  __shared__ double s_sum[kThreads];
  const Chunk chunk = my_chunk(batch);
  const DeviceRow& row = batch.rows[chunk.row];
  const RowPeak peak = batch.peaks[chunk.row];
  const ColumnGroups map(batch.head_dim);
  double l = 0;
  for (int base = 0; base < batch.head_dim; base += map.width) {
    const int column = base + map.column;
    const bool active = map.group < map.groups && column < batch.head_dim;
    double sum = 0;
    for (std::int64_t tile = chunk.first; tile < chunk.last; tile += kThreads) {
      const std::int64_t mine = tile + threadIdx.x;
      const double p = mine < chunk.last ? exp(batch.s[row.pairs + mine] - peak.m) : 0.0;
      if (base == 0) l += p;
      s_p[threadIdx.x] = p;
      __syncthreads();
      const int keys = static_cast<int>(min(std::int64_t{kThreads}, chunk.last - tile));
      if (active) {
        const auto* v =
            static_cast<const Element*>(batch.v) + row.v + tile * batch.v_stride + column;
#pragma unroll 4
        for (int j = map.group; j < keys; j += map.groups) {
          sum += s_p[j] * static_cast<double>(to_float(v[j * batch.v_stride]));
        }
      }
      __syncthreads();
    }
    s_sum[threadIdx.x] = sum;
    __syncthreads();
    if (map.group == 0 && active) {
      for (int g = 1; g < map.groups; ++g) sum += s_sum[g * map.width + map.column];
      batch.partial_out[std::int64_t{blockIdx.x} * batch.head_dim + column] = sum;
    }
    __syncthreads();
  }
  s_sum[threadIdx.x] = l;
  __syncthreads();
  for (int step = kThreads / 2; step > 0; step /= 2) {
    if (static_cast<int>(threadIdx.x) < step) s_sum[threadIdx.x] += s_sum[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) batch.partial_l[blockIdx.x] = s_sum[0];
}

/// A block a row.
__global__ void __launch_bounds__(kThreads) merge_outputs_kernel(Batch batch) {
  const std::int64_t row = blockIdx.x;
  const RowPeak peak = batch.peaks[row];
  const std::int64_t visible = batch.rows[row].visible;
  double l = 0;
  for (int i = 0; i < batch.chunks; ++i) l += batch.partial_l[row * batch.chunks + i];
  const bool defined = !peak.undefined && peak.m > -INFINITY;
  for (int c = threadIdx.x; c < batch.head_dim; c += kThreads) {
    double sum = 0;
    for (int i = 0; i < batch.chunks; ++i) {
      sum += batch.partial_out[(row * batch.chunks + i) * batch.head_dim + c];
    }
    batch.out[row * batch.head_dim + c] = visible == 0 ? 0.0 : (defined ? sum / l : NAN);
  }
  if (threadIdx.x == 0) {
    batch.peaks[row].l = visible == 0 ? 0.0 : l;
    batch.lse[row] =
        visible == 0 ? -INFINITY : (peak.undefined ? NAN : peak.m + (defined ? log(l) : 0.0));
  }
}

/// Grid rows * chunks. kStorages: 2 where scores in f32 and in the dtype differ.
template <class Element, int kStorages>
__global__ void __launch_bounds__(kThreads) spreads_kernel(Batch batch) {
  constexpr int kTile = 128;
  __shared__ double s_p[kTile];
  __shared__ KeyPerturbation s_factors[kStorages][kTile];
  __shared__ ColumnSums s_sums[kThreads];
  const Chunk chunk = my_chunk(batch);
  const DeviceRow& row = batch.rows[chunk.row];
  const RowPeak peak = batch.peaks[chunk.row];
  const bool defined = !peak.undefined && peak.m > -INFINITY;
  const std::int64_t last = defined ? chunk.last : chunk.first;
  const ColumnGroups map(batch.head_dim);
  Anchor anchors[kStorages];
  RowSums row_sums[kStorages];
  for (int t = 0; t < kStorages; ++t)
    anchors[t] = make_anchor(peak, batch.root_dim, batch.storage[t]);

  for (int base = 0; base < batch.head_dim; base += map.width) {
    const int column = base + map.column;
    const bool active = map.group < map.groups && column < batch.head_dim;
    const double o = active ? batch.out[chunk.row * batch.head_dim + column] : 0.0;
    ColumnSums sums;
    for (std::int64_t tile = chunk.first; tile < last; tile += kTile) {
      const std::int64_t mine = tile + threadIdx.x;
      if (threadIdx.x < kTile && mine < last) {
        const double s = batch.s[row.pairs + mine];
        const double dot = batch.dot[row.pairs + mine];
        const double weight = exp(s - peak.m) / peak.l;
        s_p[threadIdx.x] = weight;
        for (int t = 0; t < kStorages; ++t) {
          const KeyPerturbation factors =
              perturb_key(peak, anchors[t], batch.root_dim, weight, s, dot, mine);
          if (base == 0) {
            row_sums[t].growth += factors.growth;
            row_sums[t].floor += factors.floor;
          }
          s_factors[t][threadIdx.x] = factors;
        }
      }
      __syncthreads();
      const int keys = static_cast<int>(min(std::int64_t{kTile}, last - tile));
      if (active) {
        const auto* v =
            static_cast<const Element*>(batch.v) + row.v + tile * batch.v_stride + column;
#pragma unroll 2
        for (int j = map.group; j < keys; j += map.groups) {
          const double value = static_cast<double>(to_float(v[j * batch.v_stride]));
          const double distance = fabs(value - o);
          const double share = s_p[j] * value;
          sums.weight_sum += fabs(share);
          sums.weight_square += share * share;
          sums.value_sum += fabs(value);
          sums.value_distance = distance > sums.value_distance ? distance : sums.value_distance;
          for (int t = 0; t < kStorages; ++t) {
            sums.bound[t] += s_factors[t][j].growth * distance;
            sums.variance[t] += s_factors[t][j].noise * distance * distance;
          }
        }
      }
      __syncthreads();
    }
    s_sums[threadIdx.x] = sums;
    __syncthreads();
    if (map.group == 0 && active) {
      for (int g = 1; g < map.groups; ++g) add_sums(sums, s_sums[g * map.width + map.column]);
      batch.partial_sums[std::int64_t{blockIdx.x} * batch.head_dim + column] = sums;
    }
    __syncthreads();
  }
  const auto block_sum = [&](double mine) {  // of the threads that have keys; thread 0 gets it
    if (threadIdx.x < kTile) s_p[threadIdx.x] = mine;
    __syncthreads();
    for (int step = kTile / 2; step > 0; step /= 2) {
      if (static_cast<int>(threadIdx.x) < step) s_p[threadIdx.x] += s_p[threadIdx.x + step];
      __syncthreads();
    }
    const double sum = s_p[0];
    __syncthreads();
    return sum;
  };
  for (int t = 0; t < kStorages; ++t) {
    const RowSums sums{block_sum(row_sums[t].growth), block_sum(row_sums[t].floor)};
    if (threadIdx.x == 0) batch.partial_row_sums[std::int64_t{blockIdx.x} * 2 + t] = sums;
  }
}

/// A block a row.
__global__ void __launch_bounds__(kThreads) merge_spreads_kernel(Batch batch) {
  const std::int64_t row = blockIdx.x;
  RowSums row_sums[2];
  for (int i = 0; i < batch.chunks; ++i) {
    for (int t = 0; t < batch.storages; ++t) {
      const RowSums& part = batch.partial_row_sums[(row * batch.chunks + i) * 2 + t];
      row_sums[t].growth += part.growth;
      row_sums[t].floor += part.floor;
    }
  }
  const RowPeak peak = batch.peaks[row];
  if (static_cast<int>(threadIdx.x) < batch.storages) {
    const int t = threadIdx.x;
    const Anchor anchor = make_anchor(peak, batch.root_dim, batch.storage[t]);
    batch.lse_bounds[row * 2 + t] = row_sums[t].floor > 0 ? lse_bound(row_sums[t], anchor) : 0.0;
  }
  for (int c = threadIdx.x; c < batch.head_dim; c += kThreads) {
    ColumnSums sums;
    for (int i = 0; i < batch.chunks; ++i) {
      add_sums(sums, batch.partial_sums[(row * batch.chunks + i) * batch.head_dim + c]);
    }
    for (int t = 0; t < batch.storages; ++t) {
      if (row_sums[t].floor > 0) sums.bound[t] /= row_sums[t].floor;
    }
    batch.sums[row * batch.head_dim + c] = sums;
  }
}

/// The rows [first, first + count) of the truth.
template <class Element>
void run_batch(Batch batch, std::int64_t count, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(count * batch.chunks);
  const auto rows = static_cast<unsigned>(count);
  const std::size_t q_bytes = static_cast<std::size_t>(batch.head_dim) * sizeof(double);
  if (q_bytes > 48 * 1024) {
    CUDA_CHECK(cudaFuncSetAttribute(scores_kernel<Element>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(q_bytes)));
  }
  scores_kernel<Element><<<blocks, kThreads, q_bytes, stream>>>(batch);
  CUDA_CHECK(cudaGetLastError());
  merge_peaks_kernel<<<(rows + kThreads - 1) / kThreads, kThreads, 0, stream>>>(batch, count);
  CUDA_CHECK(cudaGetLastError());
  outputs_kernel<Element><<<blocks, kThreads, 0, stream>>>(batch);
  CUDA_CHECK(cudaGetLastError());
  merge_outputs_kernel<<<rows, kThreads, 0, stream>>>(batch);
  CUDA_CHECK(cudaGetLastError());
  constexpr int kStorages = std::is_same_v<Element, float> ? 1 : 2;
  spreads_kernel<Element, kStorages><<<blocks, kThreads, 0, stream>>>(batch);
  CUDA_CHECK(cudaGetLastError());
  merge_spreads_kernel<<<rows, kThreads, 0, stream>>>(batch);
  CUDA_CHECK(cudaGetLastError());
}

void run_batch(Dtype dtype, const Batch& batch, std::int64_t count, cudaStream_t stream) {
  switch (dtype) {
    case Dtype::f32: return run_batch<float>(batch, count, stream);
    case Dtype::f16: return run_batch<__half>(batch, count, stream);
    case Dtype::bf16: return run_batch<__nv_bfloat16>(batch, count, stream);
  }
}

/// How the keys of `count` rows are cut so that there are blocks enough, and not too many.
void cut_keys(Batch& batch, std::int64_t count, std::int64_t longest) {
  const std::int64_t wanted = std::max<std::int64_t>(1, kBlocksPerBatch / count);
  const std::int64_t keys = std::max<std::int64_t>(1, (longest + wanted - 1) / wanted);
  batch.chunk_keys = (keys + kChunkKeys - 1) / kChunkKeys * kChunkKeys;
  batch.chunks = static_cast<int>(
      std::max<std::int64_t>(1, (longest + batch.chunk_keys - 1) / batch.chunk_keys));
}

class RowsOnDevice {
 public:
  RowsOnDevice(const Problem& problem, const Operands& operands, cudaStream_t stream,
               OracleRows& truth)
      : problem_(problem), operands_(operands), stream_(stream), truth_(truth) {}

  /// As many rows from `first` on as fit a batch; returns the next.
  std::size_t run(std::size_t first) {
    const std::int64_t row_bytes =
        problem_.head_dim * static_cast<std::int64_t>(sizeof(ColumnSums) + 2 * sizeof(double));
    std::vector<DeviceRow> rows;
    std::int64_t pairs = 0;
    std::int64_t longest = 0;
    std::size_t end = first;
    for (; end < truth_.rows.size(); ++end) {
      const RowId& id = truth_.rows[end];
      const std::int64_t kv_head = id.head / (problem_.heads / problem_.kv_heads);
      DeviceRow row;
      row.q = operands_.q.at(id.batch, id.row, id.head, 0);
      row.k = operands_.k.at(id.batch, 0, kv_head, 0);
      row.v = operands_.v.at(id.batch, 0, kv_head, 0);
      row.visible = problem_.visible_keys(id.row);
      row.pairs = pairs;
      const std::int64_t bytes = static_cast<std::int64_t>(rows.size() + 1) * row_bytes;
      if (!rows.empty() && (pairs + row.visible > kPairsPerBatch || bytes > kPartialBytes)) break;
      pairs += row.visible;
      longest = std::max(longest, row.visible);
      rows.push_back(row);
    }
    run_rows(first, rows, pairs, longest);
    return end;
  }

 private:
  void run_rows(std::size_t first, const std::vector<DeviceRow>& rows, std::int64_t pairs,
                std::int64_t longest) {
    const auto count = static_cast<std::int64_t>(rows.size());
    Batch batch;
    batch.q = operands_.q.data;
    batch.k = operands_.k.data;
    batch.v = operands_.v.data;
    batch.k_stride = operands_.k.stride[1];
    batch.v_stride = operands_.v.stride[1];
    batch.head_dim = static_cast<int>(problem_.head_dim);
    batch.scale = problem_.scale;
    batch.root_dim = std::sqrt(static_cast<double>(problem_.head_dim));
    batch.storage[1] = unit_roundoff(problem_.dtype);
    batch.storages = problem_.dtype == Dtype::f32 ? 1 : 2;
    cut_keys(batch, count, longest);

    const std::size_t parts = rows.size() * static_cast<std::size_t>(batch.chunks);
    const auto d = static_cast<std::size_t>(problem_.head_dim);
    const DeviceArray<DeviceRow> device_rows(rows, stream_);
    s_.reserve(static_cast<std::size_t>(pairs));
    dot_.reserve(static_cast<std::size_t>(pairs));
    partial_peaks_.reserve(parts);
    peaks_.reserve(rows.size());
    partial_l_.reserve(parts);
    partial_out_.reserve(parts * d);
    out_.reserve(rows.size() * d);
    lse_.reserve(rows.size());
    partial_row_sums_.reserve(parts * 2);
    lse_bounds_.reserve(rows.size() * 2);
    partial_sums_.reserve(parts * d);
    sums_.reserve(rows.size() * d);
    batch.rows = device_rows.data();
    batch.s = s_.data();
    batch.dot = dot_.data();
    batch.partial_peaks = partial_peaks_.data();
    batch.peaks = peaks_.data();
    batch.partial_l = partial_l_.data();
    batch.partial_out = partial_out_.data();
    batch.out = out_.data();
    batch.lse = lse_.data();
    batch.partial_row_sums = partial_row_sums_.data();
    batch.lse_bounds = lse_bounds_.data();
    batch.partial_sums = partial_sums_.data();
    batch.sums = sums_.data();
    run_batch(problem_.dtype, batch, count, stream_);
    std::vector<RowPeak> peaks(rows.size());
    std::vector<ColumnSums> sums(rows.size() * d);
    peaks_.download(peaks.data(), peaks.size(), stream_);
    sums_.download(sums.data(), sums.size(), stream_);
    collect(first, peaks, sums);
    out_.download(truth_.out.data() + first * d, rows.size() * d, stream_);
    lse_.download(truth_.lse.data() + first, rows.size(), stream_);
    std::vector<double> lse_bounds(rows.size() * 2);
    lse_bounds_.download(lse_bounds.data(), lse_bounds.size(), stream_);
    for (std::size_t i = 0; i < lse_bounds.size(); ++i) {
      std::vector<double>& to = truth_.scores[i % 2].lse_bound;
      if (!to.empty()) to[first + i / 2] = lse_bounds[i];
    }
  }

  void collect(std::size_t first, const std::vector<RowPeak>& peaks,
               const std::vector<ColumnSums>& sums) {
    for (std::size_t i = 0; i < peaks.size(); ++i) truth_.row_sum[first + i] = peaks[i].l;
    const std::size_t base = first * static_cast<std::size_t>(problem_.head_dim);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      truth_.weight_sum[base + i] = sums[i].weight_sum;
      truth_.weight_square[base + i] = sums[i].weight_square;
      truth_.value_sum[base + i] = sums[i].value_sum;
      truth_.value_distance[base + i] = sums[i].value_distance;
      for (std::size_t t = 0; t < (problem_.dtype == Dtype::f32 ? 1U : 2U); ++t) {
        truth_.scores[t].bound[base + i] = sums[i].bound[t];
        truth_.scores[t].variance[base + i] = sums[i].variance[t];
      }
    }
  }

  const Problem& problem_;
  const Operands& operands_;
  cudaStream_t stream_;
  OracleRows& truth_;
  // Of one batch (Batch has their shapes), kept for the next.
  DeviceArray<double> s_, dot_, partial_l_, partial_out_, out_, lse_, lse_bounds_;
  DeviceArray<RowSums> partial_row_sums_;
  DeviceArray<RowPeak> partial_peaks_, peaks_;
  DeviceArray<ColumnSums> partial_sums_, sums_;
};

}  // namespace

OracleRows cuda_oracle_rows(const Problem& problem, const Operands& operands,
                            std::span<const RowId> rows, cudaStream_t stream) {
  OracleRows truth = make_oracle_rows(problem, rows);
  RowsOnDevice device(problem, operands, stream, truth);
  for (std::size_t next = 0; next < rows.size();) next = device.run(next);
  return truth;
}

}  // namespace flashbench
