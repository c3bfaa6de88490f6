#include "annotate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#if __has_include(<nvtx3/nvToolsExtPayload.h>)

// This test is a profiler: NVTX finds its two entry points, at the end of this namespace, in the
// program itself. It needs the types alone.
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>

namespace {

struct Tool {
  std::string domain;
  std::vector<std::string> schema;  ///< names of the payload's entries
  std::vector<nvtxPayloadSchemaEntry_t> entries;
  std::vector<std::string> events;  ///< "push NAME", "pop"
  std::vector<char> payload;        ///< of the last push that had one

  static Tool& instance() {
    static Tool tool;
    return tool;
  }
};

// NVTX hands tools a table to write their functions into, as untyped pointers.
nvtxDomainHandle_t NVTX_API on_domain(const char* name) {
  Tool::instance().domain = name;
  return reinterpret_cast<nvtxDomainHandle_t>(&Tool::instance());
}

int NVTX_API on_push(nvtxDomainHandle_t, const nvtxEventAttributes_t* event) {
  Tool& tool = Tool::instance();
  tool.events.push_back(std::string("push ") + event->message.ascii);
  if (event->payloadType == NVTX_PAYLOAD_TYPE_EXT) {
    const auto* data = reinterpret_cast<const nvtxPayloadData_t*>(event->payload.ullValue);
    EXPECT_EQ(data->schemaId, 77U);
    const auto* bytes = static_cast<const char*>(data->payload);
    tool.payload.assign(bytes, bytes + data->size);
  }
  return 0;
}

int NVTX_API on_pop(nvtxDomainHandle_t) {
  Tool::instance().events.emplace_back("pop");
  return 0;
}

std::uint64_t NVTX_API on_schema(nvtxDomainHandle_t, const nvtxPayloadSchemaAttr_t* schema) {
  for (std::size_t i = 0; i < schema->numEntries; ++i) {
    Tool::instance().schema.emplace_back(schema->entries[i].name);
    Tool::instance().entries.push_back(schema->entries[i]);
  }
  return 77;
}

int NVTX_API attach(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) {
    return 0;
  }
  *table[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(on_domain);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(on_push);
  *table[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(on_pop);
  return 1;
}

int NVTX_API attach_payloads(nvtxExtModuleInfo_t* module) {
  module->segments[0].functionSlots[NVTX3EXT_CBID_nvtxPayloadSchemaRegister] =
      reinterpret_cast<intptr_t>(on_schema);
  return 1;
}

}  // namespace

extern "C" {
// NOLINTBEGIN(readability-identifier-naming): NVTX's names.
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = attach;
NvtxExtInitializeInjectionFunc_t InitializeInjectionNvtxExtension_fnptr = attach_payloads;
// NOLINTEND(readability-identifier-naming)
}

namespace flashbench {
namespace {

using testing::ElementsAre;

class AnnotateTest : public testing::Test {
 protected:
  void SetUp() override { Tool::instance().events.clear(); }
  template <typename T>
  T payload(const std::string& name) const {
    const Tool& tool = Tool::instance();
    T value{};
    for (std::size_t i = 0; i < tool.schema.size(); ++i) {
      if (tool.schema[i] == name) {
        std::memcpy(static_cast<void*>(&value), tool.payload.data() + tool.entries[i].offset,
                    sizeof value);
        return value;
      }
    }
    ADD_FAILURE() << "no payload entry " << name;
    return value;
  }
};

TEST_F(AnnotateTest, RangesNestInTheDomain) {
  ASSERT_TRUE(annotations_built());
  {
    const Range cell("naive");
    const Range phase("profile");
    Plan plan;
    plan.steps.push_back({"qk", [](Stream) { const Range inner("launch"); }});
    plan.steps.push_back({"softmax", [](Stream) {}});
    enqueue_annotated(plan, nullptr);
  }
  EXPECT_EQ(Tool::instance().domain, "flashbench");
  EXPECT_THAT(Tool::instance().events,
              ElementsAre("push naive", "push profile", "push qk", "push launch", "pop", "pop",
                          "push softmax", "pop", "pop", "pop"));
}

TEST_F(AnnotateTest, ProblemTravelsAsPayload) {
  Problem problem;
  problem.batch = 3;
  problem.heads = 16;
  problem.kv_heads = 4;
  problem.n_q = std::int64_t{1} << 33;
  problem.n_kv = 17;
  problem.head_dim = 128;
  problem.dtype = Dtype::bf16;
  problem.mask = Mask::causal;
  problem.scale = 0.25;
  {
    const Range cell("fused-mma", problem);
  }
  EXPECT_THAT(Tool::instance().events, ElementsAre("push fused-mma", "pop"));
  EXPECT_THAT(Tool::instance().schema, ElementsAre("batch", "heads", "kv_heads", "n_q", "n_kv",
                                                   "head_dim", "dtype", "mask", "scale"));
  EXPECT_EQ(payload<std::int64_t>("batch"), 3);
  EXPECT_EQ(payload<std::int64_t>("kv_heads"), 4);
  EXPECT_EQ(payload<std::int64_t>("n_q"), std::int64_t{1} << 33);
  EXPECT_EQ(payload<std::int64_t>("n_kv"), 17);
  EXPECT_EQ(payload<std::int64_t>("head_dim"), 128);
  EXPECT_STREQ(payload<const char*>("dtype"), "bf16");
  EXPECT_STREQ(payload<const char*>("mask"), "causal");
  EXPECT_EQ(payload<double>("scale"), 0.25);
}

TEST_F(AnnotateTest, AStepThatThrowsStillEndsItsRange) {
  Plan plan;
  plan.steps.push_back({"qk", [](Stream) { throw std::runtime_error("no"); }});
  EXPECT_THROW(enqueue_annotated(plan, nullptr), std::runtime_error);
  EXPECT_THAT(Tool::instance().events, ElementsAre("push qk", "pop"));
}

}  // namespace
}  // namespace flashbench

#else

namespace flashbench {
namespace {

TEST(AnnotateTest, WithoutNvtxRangesDoNothing) {
  int runs = 0;
  Plan plan;
  plan.steps.push_back({"qk", [&runs](Stream) { ++runs; }});
  const Range cell("naive", Problem{});
  enqueue_annotated(plan, nullptr);
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace flashbench

#endif
