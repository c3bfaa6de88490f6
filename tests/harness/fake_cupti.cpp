// A CUPTI for tests, loaded in the place of the real one. It keeps to the order of calls that CUPTI
// asks for, and is told by environment variables what to do:
//   FAKE_CUPTI_FAIL     "cuptiFoo=35": that function answers with that result
//   FAKE_CUPTI_UNKNOWN  a metric that this chip does not have
//   FAKE_CUPTI_PASSES   passes that a schedule takes (1)
//   FAKE_CUPTI_LEVEL    the CUpti_Profiler_Support_Level of the device (supported)
//   FAKE_CUPTI_DROPPED  ranges that decoding loses (0)
// A metric's value in a range is 1000 * (range + 1) + the place of the metric in the request.
// Compiled with FAKE_CUPTI_OLD it lacks the range profiler, as CUPTI did before CUDA 12.6.

#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace {

struct State {
  int enabled = 0;   ///< sessions open now
  int sessions = 0;  ///< ever
  int hosts = 0;     ///< host objects open now
  bool started = false;
  bool in_range = false;
  int passes = 0;          ///< of the session
  std::size_t ranges = 0;  ///< of the pass
  std::size_t configured_ranges = 0;
  bool decoded = false;
};
State state;

int number(const char* variable, int otherwise) {
  const char* value = std::getenv(variable);
  return value == nullptr ? otherwise : static_cast<int>(std::strtol(value, nullptr, 10));
}

CUptiResult answer(const char* function, bool in_order = true) {
  if (const char* fail = std::getenv("FAKE_CUPTI_FAIL")) {
    const char* equals = std::strchr(fail, '=');
    if (equals != nullptr && std::string(fail, equals) == function) {
      return static_cast<CUptiResult>(std::strtol(equals + 1, nullptr, 10));
    }
  }
  return in_order ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_OPERATION;
}

}  // namespace

extern "C" {

/// For tests: what is still open.
__attribute__((visibility("default"))) int fake_cupti_open_objects() {
  return state.enabled + state.hosts + (state.started ? 1 : 0) + (state.in_range ? 1 : 0);
}
__attribute__((visibility("default"))) int fake_cupti_sessions() {
  return state.sessions;
}

CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult result, const char** str) {
  static std::string buffer;
  buffer = "result " + std::to_string(static_cast<int>(result));
  *str = buffer.c_str();
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiProfilerInitialize(CUpti_Profiler_Initialize_Params*) {
  return answer("cuptiProfilerInitialize");
}

CUptiResult CUPTIAPI cuptiProfilerDeviceSupported(CUpti_Profiler_DeviceSupported_Params* params) {
  params->isSupported = static_cast<CUpti_Profiler_Support_Level>(
      number("FAKE_CUPTI_LEVEL", CUPTI_PROFILER_CONFIGURATION_SUPPORTED));
  params->architecture = CUPTI_PROFILER_CONFIGURATION_SUPPORTED;
  params->sli = CUPTI_PROFILER_CONFIGURATION_SUPPORTED;
  params->vGpu = params->isSupported;
  params->confidentialCompute = CUPTI_PROFILER_CONFIGURATION_SUPPORTED;
  params->cmp = CUPTI_PROFILER_CONFIGURATION_SUPPORTED;
  params->wsl = CUPTI_PROFILER_CONFIGURATION_SUPPORTED;
  return answer("cuptiProfilerDeviceSupported");
}

CUptiResult CUPTIAPI
cuptiProfilerGetCounterAvailability(CUpti_Profiler_GetCounterAvailability_Params* params) {
  if (params->pCounterAvailabilityImage == nullptr) params->counterAvailabilityImageSize = 16;
  return answer("cuptiProfilerGetCounterAvailability");
}

CUptiResult CUPTIAPI cuptiDeviceGetChipName(CUpti_Device_GetChipName_Params* params) {
  params->pChipName = "FAKE100";
  return answer("cuptiDeviceGetChipName");
}

CUptiResult CUPTIAPI cuptiProfilerHostInitialize(CUpti_Profiler_Host_Initialize_Params* params) {
  const CUptiResult result =
      answer("cuptiProfilerHostInitialize", params->pChipName == std::string("FAKE100"));
  if (result == CUPTI_SUCCESS) {
    ++state.hosts;
    params->pHostObject = reinterpret_cast<CUpti_Profiler_Host_Object*>(&state);
  }
  return result;
}

CUptiResult CUPTIAPI
cuptiProfilerHostDeinitialize(CUpti_Profiler_Host_Deinitialize_Params* params) {
  --state.hosts;
  return answer("cuptiProfilerHostDeinitialize", params->pHostObject != nullptr);
}

CUptiResult CUPTIAPI
cuptiProfilerHostConfigAddMetrics(CUpti_Profiler_Host_ConfigAddMetrics_Params* params) {
  const char* unknown = std::getenv("FAKE_CUPTI_UNKNOWN");
  for (std::size_t i = 0; i < params->numMetrics; ++i) {
    if (unknown != nullptr && std::strcmp(unknown, params->ppMetricNames[i]) == 0) {
      return CUPTI_ERROR_INVALID_METRIC_NAME;
    }
  }
  return answer("cuptiProfilerHostConfigAddMetrics");
}

CUptiResult CUPTIAPI
cuptiProfilerHostGetConfigImageSize(CUpti_Profiler_Host_GetConfigImageSize_Params* params) {
  params->configImageSize = 32;
  return answer("cuptiProfilerHostGetConfigImageSize");
}

CUptiResult CUPTIAPI
cuptiProfilerHostGetConfigImage(CUpti_Profiler_Host_GetConfigImage_Params* params) {
  return answer("cuptiProfilerHostGetConfigImage", params->configImageSize == 32);
}

CUptiResult CUPTIAPI
cuptiProfilerHostGetNumOfPasses(CUpti_Profiler_Host_GetNumOfPasses_Params* params) {
  params->numOfPasses = static_cast<std::size_t>(number("FAKE_CUPTI_PASSES", 1));
  return answer("cuptiProfilerHostGetNumOfPasses");
}

CUptiResult CUPTIAPI
cuptiProfilerHostEvaluateToGpuValues(CUpti_Profiler_Host_EvaluateToGpuValues_Params* params) {
  for (std::size_t i = 0; i < params->numMetrics; ++i) {
    params->pMetricValues[i] =
        1000 * static_cast<double>(params->rangeIndex + 1) + static_cast<double>(i);
  }
  return answer("cuptiProfilerHostEvaluateToGpuValues", state.decoded);
}

#ifndef FAKE_CUPTI_OLD

CUptiResult CUPTIAPI cuptiRangeProfilerEnable(CUpti_RangeProfiler_Enable_Params* params) {
  const CUptiResult result =
      answer("cuptiRangeProfilerEnable", state.enabled == 0 && params->ctx != nullptr);
  if (result == CUPTI_SUCCESS) {
    ++state.enabled;
    ++state.sessions;
    state.passes = 0;
    state.decoded = false;
    params->pRangeProfilerObject = reinterpret_cast<CUpti_RangeProfiler_Object*>(&state);
  }
  return result;
}

CUptiResult CUPTIAPI cuptiRangeProfilerDisable(CUpti_RangeProfiler_Disable_Params*) {
  --state.enabled;
  return answer("cuptiRangeProfilerDisable", !state.started);
}

CUptiResult CUPTIAPI
cuptiRangeProfilerGetCounterDataSize(CUpti_RangeProfiler_GetCounterDataSize_Params* params) {
  params->counterDataSize = 64;
  return answer("cuptiRangeProfilerGetCounterDataSize", state.enabled == 1);
}

CUptiResult CUPTIAPI cuptiRangeProfilerCounterDataImageInitialize(
    CUpti_RangeProfiler_CounterDataImage_Initialize_Params* params) {
  return answer("cuptiRangeProfilerCounterDataImageInitialize", params->counterDataSize == 64);
}

CUptiResult CUPTIAPI cuptiRangeProfilerSetConfig(CUpti_RangeProfiler_SetConfig_Params* params) {
  state.configured_ranges = params->maxRangesPerPass;
  return answer("cuptiRangeProfilerSetConfig", params->configSize == 32 &&
                                                   params->range == CUPTI_UserRange &&
                                                   params->replayMode == CUPTI_UserReplay);
}

CUptiResult CUPTIAPI cuptiRangeProfilerStart(CUpti_RangeProfiler_Start_Params*) {
  const CUptiResult result =
      answer("cuptiRangeProfilerStart", state.enabled == 1 && !state.started);
  if (result == CUPTI_SUCCESS) {
    state.started = true;
    state.ranges = 0;
  }
  return result;
}

CUptiResult CUPTIAPI cuptiRangeProfilerStop(CUpti_RangeProfiler_Stop_Params* params) {
  const bool in_order = state.started;
  state.started = false;
  state.in_range = false;
  ++state.passes;
  params->isAllPassSubmitted = state.passes >= number("FAKE_CUPTI_PASSES", 1) ? 1 : 0;
  return answer("cuptiRangeProfilerStop", in_order);
}

CUptiResult CUPTIAPI cuptiRangeProfilerPushRange(CUpti_RangeProfiler_PushRange_Params* params) {
  const CUptiResult result =
      answer("cuptiRangeProfilerPushRange", state.started && !state.in_range &&
                                                state.ranges < state.configured_ranges &&
                                                params->pRangeName == std::to_string(state.ranges));
  if (result == CUPTI_SUCCESS) {
    state.in_range = true;
    ++state.ranges;
  }
  return result;
}

CUptiResult CUPTIAPI cuptiRangeProfilerPopRange(CUpti_RangeProfiler_PopRange_Params*) {
  const bool in_order = state.in_range;
  state.in_range = false;
  return answer("cuptiRangeProfilerPopRange", in_order);
}

CUptiResult CUPTIAPI cuptiRangeProfilerDecodeData(CUpti_RangeProfiler_DecodeData_Params* params) {
  state.decoded = !state.started;
  params->numOfRangeDropped = static_cast<std::size_t>(number("FAKE_CUPTI_DROPPED", 0));
  return answer("cuptiRangeProfilerDecodeData", state.decoded);
}

#endif

}  // extern "C"
