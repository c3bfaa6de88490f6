#include "activations.h"

namespace flashbench {
namespace {

TEST(Activations, OfARealTransformerAreExactOnTheCpu) {
  for (const char* implementation : {"cpu-naive", "cpu-fused"}) {
    expect_exact_on_activations("cpu", implementation);
  }
}

}  // namespace
}  // namespace flashbench
