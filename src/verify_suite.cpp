#include "verify_suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace flashbench {

namespace {

constexpr std::array kDtypes{Dtype::bf16, Dtype::f16, Dtype::f32};

struct Shape {
  std::int64_t n_q = 1;
  std::int64_t n_kv = 1;
  std::int64_t head_dim = 64;
  std::int64_t heads = 2;
  std::int64_t kv_heads = 1;
  std::int64_t batch = 2;
};

class Suite {
 public:
  explicit Suite(const SuiteOptions& options) : options_(options) {}

  void add(Distribution distribution, Dtype dtype, Mask mask, const Shape& shape) {
    VerifyCase one;
    one.problem.batch = shape.batch;
    one.problem.heads = shape.heads;
    one.problem.kv_heads = shape.kv_heads;
    one.problem.n_q = shape.n_q;
    one.problem.n_kv = shape.n_kv;
    one.problem.head_dim = shape.head_dim;
    one.problem.scale = default_scale(shape.head_dim);
    one.problem.dtype = dtype;
    one.problem.mask = mask;
    // A seed of its own, so that no two cases share inputs.
    one.inputs = {distribution, options_.seed * 1000003 + cases_.size()};
    one.name = fmt::format("{} {}", to_string(distribution), one.problem.to_string());
    const auto same = [&](const VerifyCase& other) { return other.name == one.name; };
    if (std::ranges::none_of(cases_, same)) cases_.push_back(std::move(one));
  }

  /// The same in the dtype whose turn it is.
  void add(Distribution distribution, Mask mask, const Shape& shape) {
    add(distribution, kDtypes[turn_++ % kDtypes.size()], mask, shape);
  }

  std::vector<VerifyCase> take() { return std::move(cases_); }

 private:
  SuiteOptions options_;
  std::vector<VerifyCase> cases_;
  std::size_t turn_ = 0;
};

/// Every distribution in every dtype, on one shape with groups and partial tiles everywhere.
void add_distributions(Suite& suite) {
  for (const Distribution distribution : distributions()) {
    for (const Dtype dtype : kDtypes) {
      suite.add(distribution, dtype, Mask::causal,
                {.n_q = 200, .n_kv = 301, .heads = 4, .kv_heads = 2});
    }
    suite.add(distribution, Mask::none, {.n_q = 70, .n_kv = 499});
  }
}

void add_shapes(Suite& suite) {
  // Tile edges and one beside them, the two lengths apart either way; n_q > n_kv leaves rows
  // without keys.
  for (const std::int64_t n :
       {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 191, 193, 255, 256, 257}) {
    suite.add(Distribution::normal, Mask::causal, {.n_q = n, .n_kv = n});
    suite.add(Distribution::normal, Mask::none, {.n_q = 3, .n_kv = n});
    suite.add(Distribution::normal, Mask::causal, {.n_q = n, .n_kv = 130});
    suite.add(Distribution::normal, Mask::causal, {.n_q = 130, .n_kv = n});
  }
  for (const std::int64_t d :
       {1, 3, 8, 13, 16, 24, 32, 40, 48, 72, 80, 96, 100, 112, 128, 160, 192, 200, 256}) {
    suite.add(Distribution::normal, d % 16 == 0 ? Mask::causal : Mask::none,
              {.n_q = 100, .n_kv = 140, .head_dim = d, .batch = 1});
    suite.add(Distribution::outlier, Mask::causal,
              {.n_q = 65, .n_kv = 65, .head_dim = d, .batch = 1});
  }
  for (const auto& [heads, kv_heads] : {std::pair{8, 1}, {6, 3}, {6, 2}, {5, 5}, {12, 4}}) {
    suite.add(Distribution::normal, Mask::causal,
              {.n_q = 80, .n_kv = 90, .heads = heads, .kv_heads = kv_heads, .batch = 3});
  }
  // A grid dimension holds 65535 blocks; in either factor.
  suite.add(Distribution::normal, Mask::none,
            {.n_q = 2, .n_kv = 3, .head_dim = 8, .heads = 2, .kv_heads = 2, .batch = 33000});
  suite.add(Distribution::normal, Mask::causal,
            {.n_q = 2, .n_kv = 3, .head_dim = 8, .heads = 66000, .kv_heads = 33000, .batch = 1});
}

/// Few rows of many keys: what is lost among thousands.
void add_long(Suite& suite) {
  for (const Dtype dtype : kDtypes) {
    suite.add(Distribution::normal, dtype, Mask::none, {.n_q = 16, .n_kv = 8192, .batch = 1});
    suite.add(Distribution::position, dtype, Mask::causal, {.n_q = 40, .n_kv = 4100, .batch = 1});
  }
  suite.add(Distribution::increasing, Dtype::bf16, Mask::none,
            {.n_q = 8, .n_kv = 16384, .heads = 1, .batch = 1});
  suite.add(Distribution::uniform, Dtype::bf16, Mask::causal,
            {.n_q = 1000, .n_kv = 1000, .heads = 1, .batch = 1});
  suite.add(Distribution::ones, Dtype::f16, Mask::none,
            {.n_q = 8, .n_kv = 20000, .heads = 1, .batch = 1});
}

/// What only a GPU has the memory and the speed for.
void add_large(Suite& suite) {
  const Shape beyond{
      .n_q = 64, .n_kv = 64, .head_dim = 128, .heads = 16, .kv_heads = 16, .batch = 16400};
  suite.add(Distribution::normal, Dtype::bf16, Mask::causal, beyond);
  suite.add(Distribution::normal, Dtype::f16, Mask::none,
            {.n_q = 4096, .n_kv = 65536, .head_dim = 128, .heads = 8, .kv_heads = 2, .batch = 1});
  suite.add(Distribution::normal, Dtype::bf16, Mask::causal,
            {.n_q = 16384, .n_kv = 16384, .head_dim = 64, .heads = 4, .kv_heads = 4, .batch = 1});
  suite.add(Distribution::position, Dtype::bf16, Mask::none,
            {.n_q = 300, .n_kv = 1 << 20, .head_dim = 64, .heads = 1, .kv_heads = 1, .batch = 1});
}

void add_thorough(Suite& suite) {
  for (const Distribution distribution : distributions()) {
    for (const Dtype dtype : kDtypes) {
      for (const Mask mask : {Mask::none, Mask::causal}) {
        for (const std::int64_t d : {32, 64, 80, 128, 256}) {
          suite.add(distribution, dtype, mask,
                    {.n_q = 257, .n_kv = 257, .head_dim = d, .heads = 2, .kv_heads = 2});
          suite.add(distribution, dtype, mask,
                    {.n_q = 31, .n_kv = 1025, .head_dim = d, .heads = 4});
          suite.add(distribution, dtype, mask, {.n_q = 150, .n_kv = 77, .head_dim = d});
        }
      }
    }
  }
  for (std::int64_t n = 1; n <= 260; n += 3) {
    suite.add(Distribution::normal, Mask::causal,
              {.n_q = n, .n_kv = n, .head_dim = 64, .batch = 1});
    suite.add(Distribution::normal, Mask::none,
              {.n_q = 1, .n_kv = n + 1, .head_dim = 128, .batch = 1});
  }
}

}  // namespace

std::vector<VerifyCase> verify_suite(DeviceKind device, const SuiteOptions& options) {
  Suite suite(options);
  add_distributions(suite);
  add_shapes(suite);
  add_long(suite);
  if (options.thorough) add_thorough(suite);
  if (device == DeviceKind::cuda) add_large(suite);
  return suite.take();
}

}  // namespace flashbench
