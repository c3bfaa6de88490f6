#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "process.h"

namespace flashbench {

/// `flashbench run` and then `flashbench check` on the Q, K and V of a layer of all-MiniLM-L6-v2
/// (tests/data/minilm, float16, B1 H12 N256 d32; scripts/dump_activations.py made them).
inline void expect_exact_on_activations(const std::string& device,
                                        const std::string& implementation) {
  const std::string data = std::string(FLASHBENCH_SOURCE_DIR) + "/tests/data/minilm/";
  const TemporaryDirectory directory;
  const std::string out = directory.file("o.npy");
  for (const std::string mask : {"none", "causal"}) {
    SCOPED_TRACE(testing::Message() << implementation << ", mask " << mask);
    const std::vector<std::string> tensors{
        "--q",          data + "q.npy", "--k", data + "k.npy", "--v",
        data + "v.npy", "--out",        out,   "--mask",       mask};
    std::vector<std::string> compute{FLASHBENCH_PROGRAM, "run",         "--device", device,
                                     "--impl",           implementation};
    compute.insert(compute.end(), tensors.begin(), tensors.end());
    const Outcome made = run_program(compute);
    ASSERT_EQ(made.code, 0) << made.err;
    std::vector<std::string> judge{FLASHBENCH_PROGRAM, "check"};
    judge.insert(judge.end(), tensors.begin(), tensors.end());
    // Materialised attention also rounds the scores, which its bound allows for.
    if (implementation.find("naive") != std::string::npos) judge.emplace_back("--materialised");
    const Outcome judged = run_program(judge);
    EXPECT_EQ(judged.code, 0) << judged.out << judged.err;
    EXPECT_THAT(judged.out, testing::HasSubstr("is exact"));
  }
}

}  // namespace flashbench
