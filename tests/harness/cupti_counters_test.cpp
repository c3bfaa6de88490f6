#include "kernels/harness/cupti_counters.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "counters.h"
#include "tests/fakes.h"

#ifdef FLASHBENCH_FAKE_CUPTI

namespace flashbench {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

/// Counters from a library that does what the environment says.
class CuptiCountersTest : public testing::Test {
 protected:
  void TearDown() override {
    for (const std::string& name : set_) unsetenv(name.c_str());
  }
  void set(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
    set_.push_back(name);
  }

  std::unique_ptr<RangeProfiler> open(const std::string& library = FLASHBENCH_FAKE_CUPTI) {
    CuptiTarget target;
    target.context = &device_;
    return make_cupti_profiler(device_, target, library);
  }

  /// What `body` is told when counters cannot be had.
  static std::string reason(const std::function<void()>& body) {
    try {
      body();
    } catch (const CountersUnavailable& error) {
      return error.what();
    }
    return "it worked";
  }
  std::string reason_for(const std::string& function, int result) {
    set("FAKE_CUPTI_FAIL", function + "=" + std::to_string(result));
    return reason([&] { profile(*open()); });
  }

  RangeProfiler::Result profile(RangeProfiler& profiler) {
    const std::vector<Quantity> quantities{Quantity::dram_read_bytes, Quantity::duration_s};
    const std::vector<CountedRange> ranges{
        {[&](Stream) { log_ += "p"; }, [&](Stream) { log_ += "a"; }},
        {nullptr, [&](Stream) { log_ += "b"; }}};
    return profiler.profile(quantities, ranges);
  }

  static int open_objects() {
    void* library = dlopen(FLASHBENCH_FAKE_CUPTI, RTLD_NOW | RTLD_NOLOAD);
    return reinterpret_cast<int (*)()>(dlsym(library, "fake_cupti_open_objects"))();
  }

  FakeDevice device_{std::int64_t{1} << 20, DeviceKind::cuda};
  std::string log_;
  std::vector<std::string> set_;
};

TEST_F(CuptiCountersTest, CountsRangesInOrderAndUnits) {
  const auto profiler = open();
  const RangeProfiler::Result result = profile(*profiler);
  EXPECT_EQ(result.passes, 1);
  ASSERT_EQ(result.ranges.size(), 2U);
  EXPECT_THAT(result.ranges[0], ElementsAre(Pair(Quantity::dram_read_bytes, 1000),
                                            Pair(Quantity::duration_s, 1001 * 1e-9)));
  EXPECT_THAT(result.ranges[1], ElementsAre(Pair(Quantity::dram_read_bytes, 2000),
                                            Pair(Quantity::duration_s, 2001 * 1e-9)));
  EXPECT_EQ(log_, "pab");
  EXPECT_EQ(open_objects(), 0) << "the session ends with the call";
}

TEST_F(CuptiCountersTest, RunsAgainForEachPass) {
  set("FAKE_CUPTI_PASSES", "3");
  EXPECT_EQ(profile(*open()).passes, 3);
  EXPECT_EQ(log_, "pabpabpab");
}

TEST_F(CuptiCountersTest, MetricsGoByTheChip) {
  const std::vector<Quantity> f16{Quantity::tensor_f16_ops};
  const std::vector<CountedRange> once{{nullptr, [](Stream) {}}};
  set("FAKE_CUPTI_UNKNOWN", "sm__ops_path_tensor_src_fp16.sum");
  EXPECT_EQ(open()->profile(f16, once).ranges[0].count(Quantity::tensor_f16_ops), 1U)
      << "the name of other chips was not tried";
  set("FAKE_CUPTI_UNKNOWN", "lts__t_bytes.sum");
  const std::vector<Quantity> both{Quantity::l2_bytes, Quantity::dram_write_bytes};
  const Counts counts = open()->profile(both, once).ranges[0];
  EXPECT_EQ(counts.count(Quantity::l2_bytes), 0U);
  EXPECT_EQ(counts.at(Quantity::dram_write_bytes), 1000);
  const std::vector<Quantity> none{Quantity::l2_bytes};
  EXPECT_TRUE(open()->profile(none, once).ranges[0].empty());
}

TEST_F(CuptiCountersTest, MultiplyAddsCountTwice) {
  // Two metrics: all f32 instructions (1000), and once more the fused ones (1001).
  const std::vector<Quantity> f32{Quantity::f32_ops};
  const std::vector<CountedRange> once{{nullptr, [](Stream) {}}};
  EXPECT_EQ(open()->profile(f32, once).ranges[0].at(Quantity::f32_ops), 2001);
}

TEST_F(CuptiCountersTest, NoPermissionNamesTheRemedies) {
  for (const char* function : {"cuptiProfilerInitialize", "cuptiProfilerGetCounterAvailability",
                               "cuptiRangeProfilerEnable", "cuptiRangeProfilerStart"}) {
    for (const int result : {35, 40}) {
      EXPECT_THAT(reason_for(function, result),
                  AllOf(HasSubstr("run as root"),
                        HasSubstr("NVreg_RestrictProfilingToAdminUsers=0"), HasSubstr(function)));
      EXPECT_EQ(open_objects(), 0);
    }
  }
}

TEST_F(CuptiCountersTest, AnotherProfilerIsNamed) {
  for (const int result : {26, 36, 39}) {
    EXPECT_THAT(reason_for("cuptiRangeProfilerEnable", result),
                AllOf(HasSubstr("another profiler"), HasSubstr("ncu"), HasSubstr("dcgm")));
  }
}

TEST_F(CuptiCountersTest, ADriverThatDoesNotGoWithTheLibraryIsNamed) {
  for (const int result : {11, 14, 15, 46}) {
    EXPECT_THAT(reason_for("cuptiProfilerInitialize", result), HasSubstr("newer driver"));
  }
}

TEST_F(CuptiCountersTest, OtherResultsKeepTheirCallAndText) {
  EXPECT_THAT(reason_for("cuptiRangeProfilerSetConfig", 999),
              AllOf(HasSubstr("cuptiRangeProfilerSetConfig"), HasSubstr("result 999")));
}

TEST_F(CuptiCountersTest, UnsupportedDevicesSayWhatIsInTheWay) {
  set("FAKE_CUPTI_LEVEL", "1");
  EXPECT_THAT(reason([&] { open(); }), HasSubstr("virtual GPU"));
}

TEST_F(CuptiCountersTest, NoLibraryAndOldLibrary) {
  EXPECT_THAT(reason([&] { open("/nowhere/libcupti.so"); }), HasSubstr("/nowhere/libcupti.so"));
  EXPECT_THAT(reason([&] { open(FLASHBENCH_OLD_CUPTI); }),
              AllOf(HasSubstr(FLASHBENCH_OLD_CUPTI), HasSubstr("12.6")));
  set("FLASHBENCH_CUPTI", "/nowhere/named.so");
  EXPECT_THAT(reason([&] { open(""); }), HasSubstr("/nowhere/named.so"));
}

TEST_F(CuptiCountersTest, DroppedRangesAreNoCount) {
  set("FAKE_CUPTI_DROPPED", "1");
  EXPECT_THAT(reason([&] { profile(*open()); }), HasSubstr("dropped"));
}

TEST_F(CuptiCountersTest, WorkThatThrowsClosesTheSession) {
  const auto profiler = open();
  const std::vector<Quantity> quantities{Quantity::dram_read_bytes};
  const std::vector<CountedRange> ranges{{nullptr, [](Stream) { throw DeviceLost("gone"); }}};
  EXPECT_THROW(profiler->profile(quantities, ranges), DeviceLost);
  EXPECT_EQ(open_objects(), 0);
  EXPECT_EQ(profile(*profiler).ranges.size(), 2U) << "and the next call works";
}

TEST_F(CuptiCountersTest, ThroughCountersTheReasonReachesTheRun) {
  set("FAKE_CUPTI_FAIL", "cuptiProfilerGetCounterAvailability=35");
  Counters counters(device_, [&](Device&) { return open(); });
  Plan plan;
  plan.steps.push_back({"fused", [](Stream) {}});
  EXPECT_EQ(counters.measure(plan, Dtype::bf16), std::nullopt);
  EXPECT_THAT(counters.reason(), HasSubstr("run as root"));
}

}  // namespace
}  // namespace flashbench

#else

namespace flashbench {
namespace {

TEST(CuptiCountersTest, WithoutHeadersTheBuildSaysSo) {
  FakeDevice device;
  try {
    make_cupti_profiler(device, CuptiTarget{}, "");
    FAIL();
  } catch (const CountersUnavailable& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("12.6"));
  }
}

}  // namespace
}  // namespace flashbench

#endif
