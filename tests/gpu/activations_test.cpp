#include "../activations.h"

namespace flashbench {
namespace {

TEST(ActivationsGpu, OfARealTransformerAreExactOnTheGpu) {
  for (const char* implementation : {"naive", "fused", "fused-simt"}) {
    expect_exact_on_activations("cuda", implementation);
  }
}

}  // namespace
}  // namespace flashbench
