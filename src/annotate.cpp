#include "annotate.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#define FLASHBENCH_NVTX 1
#include <nvtx3/nvToolsExt.h>
#endif
#if __has_include(<nvtx3/nvToolsExtPayload.h>)
#define FLASHBENCH_NVTX_PAYLOAD 1
#include <nvtx3/nvToolsExtPayload.h>
#endif

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace flashbench {

#ifdef FLASHBENCH_NVTX

namespace {

/// Null where no tool listens.
nvtxDomainHandle_t domain() {
  static nvtxDomainHandle_t handle = nvtxDomainCreateA("flashbench");
  return handle;
}

nvtxEventAttributes_t attributes(const std::string& name) {
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = name.c_str();
  return event;
}

#ifdef FLASHBENCH_NVTX_PAYLOAD

struct ProblemPayload {
  std::int64_t batch;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t n_q;
  std::int64_t n_kv;
  std::int64_t head_dim;
  const char* dtype;
  const char* mask;
  double scale;
};

/// The payload's layout as told to the tool; 0 where the tool does not know payloads.
std::uint64_t problem_schema() {
  static const std::uint64_t id = [] {
    const auto entry = [](std::uint64_t type, const char* name, std::size_t offset) {
      nvtxPayloadSchemaEntry_t one{};
      one.type = type;
      one.name = name;
      one.offset = offset;
      return one;
    };
    constexpr std::uint64_t kInteger = NVTX_PAYLOAD_ENTRY_TYPE_INT64;
    constexpr std::uint64_t kString = NVTX_PAYLOAD_ENTRY_TYPE_CSTRING;
    const std::array entries{
        entry(kInteger, "batch", offsetof(ProblemPayload, batch)),
        entry(kInteger, "heads", offsetof(ProblemPayload, heads)),
        entry(kInteger, "kv_heads", offsetof(ProblemPayload, kv_heads)),
        entry(kInteger, "n_q", offsetof(ProblemPayload, n_q)),
        entry(kInteger, "n_kv", offsetof(ProblemPayload, n_kv)),
        entry(kInteger, "head_dim", offsetof(ProblemPayload, head_dim)),
        entry(kString, "dtype", offsetof(ProblemPayload, dtype)),
        entry(kString, "mask", offsetof(ProblemPayload, mask)),
        entry(NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE, "scale", offsetof(ProblemPayload, scale)),
    };
    nvtxPayloadSchemaAttr_t schema{};
    schema.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
                       NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                       NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
                       NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
    schema.name = "problem";
    schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
    schema.entries = entries.data();
    schema.numEntries = entries.size();
    schema.payloadStaticSize = sizeof(ProblemPayload);
    return nvtxPayloadSchemaRegister(domain(), &schema);
  }();
  return id;
}

#endif  // FLASHBENCH_NVTX_PAYLOAD

}  // namespace

Range::Range(std::string_view name) {
  if (domain() == nullptr) return;
  const std::string text(name);
  const nvtxEventAttributes_t event = attributes(text);
  nvtxDomainRangePushEx(domain(), &event);
  pushed_ = true;
}

Range::Range(std::string_view name, const Problem& problem) {
  if (domain() == nullptr) return;
  const std::string text(name);
  nvtxEventAttributes_t event = attributes(text);
#ifdef FLASHBENCH_NVTX_PAYLOAD
  const ProblemPayload values{problem.batch,
                              problem.heads,
                              problem.kv_heads,
                              problem.n_q,
                              problem.n_kv,
                              problem.head_dim,
                              to_string(problem.dtype).data(),
                              to_string(problem.mask).data(),
                              problem.scale};
  const nvtxPayloadData_t payload{problem_schema(), sizeof values, &values};
  if (payload.schemaId != 0) {
    event.payloadType = NVTX_PAYLOAD_TYPE_EXT;
    event.reserved0 = 1;  // payloads, by the extension's convention
    event.payload.ullValue = reinterpret_cast<std::uintptr_t>(&payload);
  }
#else
  static_cast<void>(problem);
#endif
  nvtxDomainRangePushEx(domain(), &event);
  pushed_ = true;
}

Range::~Range() {
  if (pushed_) nvtxDomainRangePop(domain());
}

bool annotations_built() {
  return true;
}

#else

Range::Range(std::string_view) {}
Range::Range(std::string_view, const Problem&) {}
Range::~Range() {
  static_cast<void>(pushed_);
}

bool annotations_built() {
  return false;
}

#endif  // FLASHBENCH_NVTX

void enqueue_annotated(const Plan& plan, Stream stream) {
  for (const Step& step : plan.steps) {
    const Range range(step.name);
    step.enqueue(stream);
  }
}

}  // namespace flashbench
