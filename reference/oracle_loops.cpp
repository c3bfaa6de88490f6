#include "reference/oracle_loops.h"

#include "reference/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/oracle_loops.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace flashbench::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::ScalableTag<double>;
constexpr Doubles kDoubles{};
using Double = hn::Vec<Doubles>;

/// Calls body(c) for whole vectors of columns, then tail(c) for single ones.
template <class Body, class Tail>
HWY_INLINE void for_columns(std::size_t size, Body&& body, Tail&& tail) {
  const std::size_t lanes = hn::Lanes(kDoubles);
  std::size_t c = 0;
  for (; c + lanes <= size; c += lanes) body(c);
  for (; c < size; ++c) tail(c);
}

DotProducts dot_products(const double* q, const double* k, std::size_t size) {
  Double sum = hn::Zero(kDoubles);
  Double magnitude = hn::Zero(kDoubles);
  DotProducts rest;
  for_columns(
      size,
      [&](std::size_t c) {
        const Double product = hn::Mul(hn::LoadU(kDoubles, q + c), hn::LoadU(kDoubles, k + c));
        sum = hn::Add(sum, product);
        magnitude = hn::Add(magnitude, hn::Abs(product));
      },
      [&](std::size_t c) {
        const double product = q[c] * k[c];
        rest.sum += product;
        rest.magnitude += product < 0 ? -product : product;
      });
  return {rest.sum + hn::GetLane(hn::SumOfLanes(kDoubles, sum)),
          rest.magnitude + hn::GetLane(hn::SumOfLanes(kDoubles, magnitude))};
}

void add_scaled(double factor, const double* x, double* to, std::size_t size) {
  const Double factors = hn::Set(kDoubles, factor);
  for_columns(
      size,
      [&](std::size_t c) {
        const Double sum =
            hn::MulAdd(factors, hn::LoadU(kDoubles, x + c), hn::LoadU(kDoubles, to + c));
        hn::StoreU(sum, kDoubles, to + c);
      },
      [&](std::size_t c) { to[c] += factor * x[c]; });
}

/// One vector or one number of columns: `Tag` is that of full vectors or of a single lane.
template <class Tag>
HWY_INLINE void add_spreads_at(Tag tag, std::size_t c, double p,
                               const std::array<KeyPerturbation, 2>& factors, const double* v,
                               const double* out, SpreadSums& sums) {
  using Vector = hn::Vec<Tag>;
  const Vector value = hn::LoadU(tag, v + c);
  const Vector share = hn::Mul(hn::Set(tag, p), value);
  const Vector distance = hn::Abs(hn::Sub(value, hn::LoadU(tag, out + c)));
  const Vector distance_square = hn::Mul(distance, distance);
  const auto add = [&](std::vector<double>& to, Vector term) {
    hn::StoreU(hn::Add(hn::LoadU(tag, to.data() + c), term), tag, to.data() + c);
  };
  add(sums.weight_sum, hn::Abs(share));
  add(sums.weight_square, hn::Mul(share, share));
  add(sums.value_sum, hn::Abs(value));
  double* farthest = sums.value_distance.data() + c;
  hn::StoreU(hn::Max(distance, hn::LoadU(tag, farthest)), tag, farthest);
  for (std::size_t t = 0; t < sums.storages; ++t) {
    add(sums.bound[t], hn::Mul(hn::Set(tag, factors[t].growth), distance));
    add(sums.variance[t], hn::Mul(hn::Set(tag, factors[t].noise), distance_square));
  }
}

void add_spreads(double p, const std::array<KeyPerturbation, 2>& factors, const double* v,
                 const double* out, SpreadSums& sums) {
  constexpr hn::CappedTag<double, 1> kOne{};
  for_columns(
      sums.weight_sum.size(),
      [&](std::size_t c) { add_spreads_at(kDoubles, c, p, factors, v, out, sums); },
      [&](std::size_t c) { add_spreads_at(kOne, c, p, factors, v, out, sums); });
}

}  // namespace flashbench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flashbench {

HWY_EXPORT(dot_products);
HWY_EXPORT(add_scaled);
HWY_EXPORT(add_spreads);

DotProducts dot_products(const double* q, const double* k, std::size_t size) {
  return HWY_DYNAMIC_DISPATCH(dot_products)(q, k, size);
}

void add_scaled(double factor, const double* x, double* to, std::size_t size) {
  HWY_DYNAMIC_DISPATCH(add_scaled)(factor, x, to, size);
}

void SpreadSums::resize(std::size_t head_dim, std::size_t storage_count) {
  storages = storage_count;
  for (std::vector<double>* sum : {&weight_sum, &weight_square, &value_sum, &value_distance}) {
    sum->resize(head_dim);
  }
  for (std::size_t t = 0; t < storages; ++t) {
    bound[t].resize(head_dim);
    variance[t].resize(head_dim);
  }
}

void add_spreads(double p, const std::array<KeyPerturbation, 2>& factors, const double* v,
                 const double* out, SpreadSums& sums) {
  HWY_DYNAMIC_DISPATCH(add_spreads)(p, factors, v, out, sums);
}

}  // namespace flashbench
#endif  // HWY_ONCE
