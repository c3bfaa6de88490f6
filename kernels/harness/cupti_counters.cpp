#include "kernels/harness/cupti_counters.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "kernels/common/cuda_check.h"

#if __has_include(<cupti_range_profiler.h>)

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "kernels/harness/cupti_library.h"

namespace flashbench {
namespace {

/// One way to count a quantity: a metric, or two whose sum it is. The names and what they count are
/// CUPTI's (cuptiProfilerHostGetMetricProperties).
using Terms = std::array<const char*, 2>;

/// The ways to count a quantity, by chip: the first that a chip knows is used.
struct Metric {
  Quantity quantity{};
  std::array<Terms, 3> ways{};
  double unit = 1;
};

constexpr Metric kMetrics[] = {
    {Quantity::dram_read_bytes, {{{"dram__bytes_read.sum"}}}},
    {Quantity::dram_write_bytes, {{{"dram__bytes_write.sum"}}}},
    {Quantity::l2_bytes, {{{"lts__t_bytes.sum"}}}},
    {Quantity::tensor_bf16_ops, {{{"sm__ops_path_tensor_src_bf16_dst_fp32.sum"}}}},
    // Hopper's name, the others', Turing's.
    {Quantity::tensor_f16_ops,
     {{{"sm__ops_path_tensor_src_fp16.sum"},
       {"sm__ops_path_tensor_src_fp16_dst_fp32.sum"},
       {"sm__ops_path_tensor_src_fp16_bf16_tf32_dst_fp32.sum"}}}},
    {Quantity::tensor_tf32_ops, {{{"sm__ops_path_tensor_src_tf32_dst_fp32.sum"}}}},
    // Instructions: a fused multiply-add counts once in the first, so once more.
    {Quantity::f32_ops,
     {{{"sm__sass_thread_inst_executed_ops_fadd_fmul_ffma_pred_on.sum",
        "sm__sass_thread_inst_executed_op_ffma_pred_on.sum"}}}},
    {Quantity::special_ops, {{{"sm__thread_inst_executed_pipe_xu_pred_on.sum"}}}},
    {Quantity::tensor_active,
     {{{"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"}}},
     1e-2},
    {Quantity::duration_s, {{{"gpu__time_duration.sum"}}}, 1e-9},
};

const Metric& metric_of(Quantity quantity) {
  for (const Metric& metric : kMetrics) {
    if (metric.quantity == quantity) return metric;
  }
  throw Error("no metric is known for this quantity");
}

class CuptiProfiler final : public RangeProfiler {
 public:
  CuptiProfiler(Device& device, const CuptiTarget& target, const std::string& library)
      : device_(device), context_(static_cast<CUcontext>(target.context)), cupti_(library) {
    CUpti_Profiler_Initialize_Params initialize{};
    initialize.structSize = CUpti_Profiler_Initialize_Params_STRUCT_SIZE;
    cupti_.check(cupti_.initialize(&initialize), "cuptiProfilerInitialize");
    check_device(target.device);

    CUpti_Device_GetChipName_Params chip{};
    chip.structSize = CUpti_Device_GetChipName_Params_STRUCT_SIZE;
    chip.deviceIndex = static_cast<std::size_t>(target.device);
    cupti_.check(cupti_.chip_name(&chip), "cuptiDeviceGetChipName");
    chip_ = chip.pChipName;

    CUpti_Profiler_GetCounterAvailability_Params availability{};
    availability.structSize = CUpti_Profiler_GetCounterAvailability_Params_STRUCT_SIZE;
    availability.ctx = context_;
    cupti_.check(cupti_.counter_availability(&availability), "cuptiProfilerGetCounterAvailability");
    availability_.resize(availability.counterAvailabilityImageSize);
    availability.pCounterAvailabilityImage = availability_.data();
    cupti_.check(cupti_.counter_availability(&availability), "cuptiProfilerGetCounterAvailability");
  }

  Result profile(std::span<const Quantity> quantities,
                 std::span<const CountedRange> ranges) override {
    Result result;
    result.ranges.resize(ranges.size());
    std::vector<Quantity> counted;  // of each name: the quantity that it is a term of
    std::vector<const char*> names;
    for (Quantity quantity : quantities) {
      for (const char* name : terms_of(quantity)) {
        if (name == nullptr) continue;
        counted.push_back(quantity);
        names.push_back(name);
      }
    }
    if (names.empty() || ranges.empty()) return result;

    const Host host(*this, names);
    const std::vector<std::uint8_t> data = collect(host.config(), names, ranges, result.passes);
    std::vector<double> values(names.size());
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      host.evaluate(data, i, names, values);
      for (std::size_t k = 0; k < names.size(); ++k) {
        result.ranges[i][counted[k]] += values[k] * metric_of(counted[k]).unit;
      }
    }
    return result;
  }

 private:
  /// The host half of CUPTI for one set of metrics: the schedule of counters, and sums from them.
  class Host {
   public:
    Host(const CuptiProfiler& profiler, std::vector<const char*> names)
        : profiler_(profiler), cupti_(profiler.cupti_), object_(profiler.open_host()) {
      try {
        CUpti_Profiler_Host_ConfigAddMetrics_Params add{};
        add.structSize = CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE;
        add.pHostObject = object_;
        add.ppMetricNames = names.data();
        add.numMetrics = names.size();
        cupti_.check(cupti_.add_metrics(&add), "cuptiProfilerHostConfigAddMetrics");
        CUpti_Profiler_Host_GetConfigImageSize_Params size{};
        size.structSize = CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE;
        size.pHostObject = object_;
        cupti_.check(cupti_.config_image_size(&size), "cuptiProfilerHostGetConfigImageSize");
        config_.resize(size.configImageSize);
        CUpti_Profiler_Host_GetConfigImage_Params image{};
        image.structSize = CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE;
        image.pHostObject = object_;
        image.configImageSize = config_.size();
        image.pConfigImage = config_.data();
        cupti_.check(cupti_.config_image(&image), "cuptiProfilerHostGetConfigImage");
      } catch (...) {
        profiler_.close_host(object_);
        throw;
      }
    }
    Host(const Host&) = delete;
    Host& operator=(const Host&) = delete;
    ~Host() { profiler_.close_host(object_); }

    const std::vector<std::uint8_t>& config() const { return config_; }

    void evaluate(const std::vector<std::uint8_t>& data, std::size_t range,
                  std::vector<const char*> names, std::vector<double>& values) const {
      CUpti_Profiler_Host_EvaluateToGpuValues_Params evaluate{};
      evaluate.structSize = CUpti_Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE;
      evaluate.pHostObject = object_;
      evaluate.pCounterDataImage = data.data();
      evaluate.counterDataImageSize = data.size();
      evaluate.rangeIndex = range;
      evaluate.ppMetricNames = names.data();
      evaluate.numMetrics = names.size();
      evaluate.pMetricValues = values.data();
      cupti_.check(cupti_.evaluate(&evaluate), "cuptiProfilerHostEvaluateToGpuValues");
    }

   private:
    const CuptiProfiler& profiler_;
    const CuptiLibrary& cupti_;
    CUpti_Profiler_Host_Object* object_;
    std::vector<std::uint8_t> config_;
  };

  /// The range profiler on the context, for as long as it is needed: it slows every launch.
  class Session {
   public:
    Session(const CuptiLibrary& cupti, CUcontext context) : cupti_(cupti) {
      CUpti_RangeProfiler_Enable_Params enable{};
      enable.structSize = CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE;
      enable.ctx = context;
      cupti_.check(cupti_.enable(&enable), "cuptiRangeProfilerEnable");
      object_ = enable.pRangeProfilerObject;
    }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    ~Session() {
      CUpti_RangeProfiler_Disable_Params disable{};
      disable.structSize = CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE;
      disable.pRangeProfilerObject = object_;
      cupti_.disable(&disable);
    }
    CUpti_RangeProfiler_Object* object() const { return object_; }

   private:
    const CuptiLibrary& cupti_;
    CUpti_RangeProfiler_Object* object_ = nullptr;
  };

  void check_device(int device) const {
    CUpti_Profiler_DeviceSupported_Params supported{};
    supported.structSize = CUpti_Profiler_DeviceSupported_Params_STRUCT_SIZE;
    supported.cuDevice = device;
    supported.api = CUPTI_PROFILER_RANGE_PROFILING;
    cupti_.check(cupti_.device_supported(&supported), "cuptiProfilerDeviceSupported");
    if (supported.isSupported == CUPTI_PROFILER_CONFIGURATION_SUPPORTED) return;
    const auto off = [](CUpti_Profiler_Support_Level level) {
      return level == CUPTI_PROFILER_CONFIGURATION_UNSUPPORTED ||
             level == CUPTI_PROFILER_CONFIGURATION_DISABLED;
    };
    const char* cause = "this configuration";
    if (off(supported.architecture)) cause = "an architecture that CUPTI's range profiler lacks";
    if (off(supported.sli)) cause = "a device in SLI";
    if (off(supported.vGpu))
      cause = "a virtual GPU without profiling rights (the host grants them)";
    if (off(supported.confidentialCompute)) cause = "confidential computing";
    if (off(supported.cmp)) cause = "a mining processor";
    if (off(supported.wsl)) cause = "Windows Subsystem for Linux without counter access";
    throw CountersUnavailable(fmt::format("no performance counters on {}", cause));
  }

  CUpti_Profiler_Host_Object* open_host() const {
    CUpti_Profiler_Host_Initialize_Params host{};
    host.structSize = CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE;
    host.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
    host.pChipName = chip_.c_str();
    host.pCounterAvailabilityImage = availability_.data();
    cupti_.check(cupti_.host_initialize(&host), "cuptiProfilerHostInitialize");
    return host.pHostObject;
  }

  void close_host(CUpti_Profiler_Host_Object* host) const noexcept {
    CUpti_Profiler_Host_Deinitialize_Params end{};
    end.structSize = CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE;
    end.pHostObject = host;
    cupti_.host_deinitialize(&end);
  }

  /// Whether this chip has these metrics.
  bool has(const Terms& terms) const {
    std::vector<const char*> names;
    std::ranges::copy_if(terms, std::back_inserter(names),
                         [](const char* name) { return name != nullptr; });
    CUpti_Profiler_Host_ConfigAddMetrics_Params add{};
    add.structSize = CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE;
    add.pHostObject = open_host();
    add.ppMetricNames = names.data();
    add.numMetrics = names.size();
    const CUptiResult result = cupti_.add_metrics(&add);
    close_host(add.pHostObject);
    return result == CUPTI_SUCCESS;
  }

  /// The chip's metrics for a quantity; nulls where it has none.
  Terms terms_of(Quantity quantity) {
    const auto known = terms_.find(quantity);
    if (known != terms_.end()) return known->second;
    Terms found{};
    for (const Terms& way : metric_of(quantity).ways) {
      if (way[0] == nullptr || found[0] != nullptr) continue;
      if (has(way)) found = way;
    }
    return terms_[quantity] = found;
  }

  /// Runs the ranges as often as the schedule needs and returns the decoded counter data.
  std::vector<std::uint8_t> collect(const std::vector<std::uint8_t>& config,
                                    std::vector<const char*> names,
                                    std::span<const CountedRange> ranges, int& passes) {
    device_.synchronize();
    const Session session(cupti_, context_);
    CUpti_RangeProfiler_GetCounterDataSize_Params size{};
    size.structSize = CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE;
    size.pRangeProfilerObject = session.object();
    size.pMetricNames = names.data();
    size.numMetrics = names.size();
    size.maxNumOfRanges = ranges.size();
    size.maxNumRangeTreeNodes = static_cast<std::uint32_t>(ranges.size());
    cupti_.check(cupti_.counter_data_size(&size), "cuptiRangeProfilerGetCounterDataSize");
    std::vector<std::uint8_t> data(size.counterDataSize);

    CUpti_RangeProfiler_CounterDataImage_Initialize_Params image{};
    image.structSize = CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE;
    image.pRangeProfilerObject = session.object();
    image.pCounterData = data.data();
    image.counterDataSize = data.size();
    cupti_.check(cupti_.counter_data_initialize(&image),
                 "cuptiRangeProfilerCounterDataImageInitialize");

    CUpti_RangeProfiler_SetConfig_Params set{};
    set.structSize = CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE;
    set.pRangeProfilerObject = session.object();
    set.pConfig = config.data();
    set.configSize = config.size();
    set.pCounterDataImage = data.data();
    set.counterDataImageSize = data.size();
    set.range = CUPTI_UserRange;
    set.replayMode = CUPTI_UserReplay;
    set.maxRangesPerPass = ranges.size();
    set.numNestingLevels = 1;
    set.minNestingLevel = 1;
    set.targetNestingLevel = 1;
    cupti_.check(cupti_.set_config(&set), "cuptiRangeProfilerSetConfig");

    passes = 0;
    for (bool complete = false; !complete;) {
      complete = run_pass(session, ranges);
      ++passes;
    }
    CUpti_RangeProfiler_DecodeData_Params decode{};
    decode.structSize = CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE;
    decode.pRangeProfilerObject = session.object();
    cupti_.check(cupti_.decode(&decode), "cuptiRangeProfilerDecodeData");
    if (decode.numOfRangeDropped != 0) {
      throw CountersUnavailable(
          fmt::format("the counters of {} ranges were dropped", decode.numOfRangeDropped));
    }
    return data;
  }

  /// True when that was the last pass.
  bool run_pass(const Session& session, std::span<const CountedRange> ranges) {
    CUpti_RangeProfiler_Start_Params start{};
    start.structSize = CUpti_RangeProfiler_Start_Params_STRUCT_SIZE;
    start.pRangeProfilerObject = session.object();
    cupti_.check(cupti_.start(&start), "cuptiRangeProfilerStart");
    CUpti_RangeProfiler_Stop_Params stop{};
    stop.structSize = CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE;
    stop.pRangeProfilerObject = session.object();
    try {
      for (std::size_t i = 0; i < ranges.size(); ++i) run_range(session, ranges[i], i);
    } catch (...) {
      cupti_.stop(&stop);
      throw;
    }
    cupti_.check(cupti_.stop(&stop), "cuptiRangeProfilerStop");
    return stop.isAllPassSubmitted != 0;
  }

  void run_range(const Session& session, const CountedRange& range, std::size_t index) {
    if (range.prepare) range.prepare(device_.stream());
    device_.synchronize();
    const std::string name = std::to_string(index);
    CUpti_RangeProfiler_PushRange_Params push{};
    push.structSize = CUpti_RangeProfiler_PushRange_Params_STRUCT_SIZE;
    push.pRangeProfilerObject = session.object();
    push.pRangeName = name.c_str();
    cupti_.check(cupti_.push_range(&push), "cuptiRangeProfilerPushRange");
    range.body(device_.stream());
    device_.synchronize();
    CUpti_RangeProfiler_PopRange_Params pop{};
    pop.structSize = CUpti_RangeProfiler_PopRange_Params_STRUCT_SIZE;
    pop.pRangeProfilerObject = session.object();
    cupti_.check(cupti_.pop_range(&pop), "cuptiRangeProfilerPopRange");
  }

  Device& device_;
  CUcontext context_;
  CuptiLibrary cupti_;
  std::string chip_;
  std::vector<std::uint8_t> availability_;
  std::map<Quantity, Terms> terms_;
};

}  // namespace

std::unique_ptr<RangeProfiler> make_cupti_profiler(Device& device, const CuptiTarget& target,
                                                   const std::string& library) {
  std::string path = library;
  if (const char* named = std::getenv("FLASHBENCH_CUPTI"); path.empty() && named != nullptr) {
    path = named;
  }
  return std::make_unique<CuptiProfiler>(device, target, path);
}

}  // namespace flashbench

#else

namespace flashbench {

std::unique_ptr<RangeProfiler> make_cupti_profiler(Device&, const CuptiTarget&,
                                                   const std::string&) {
  throw CountersUnavailable(
      "built without CUPTI's range profiler: install the CUPTI headers of CUDA 12.6 or newer and "
      "build again");
}

}  // namespace flashbench

#endif

namespace flashbench {

std::unique_ptr<RangeProfiler> make_cupti_profiler(Device& device) {
  // The driver is reached through the runtime alone, so that the program starts without one.
  using CtxGetCurrent = CUresult (*)(CUcontext*);
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
  CUDA_CHECK(
      cudaGetDriverEntryPointByVersion("cuCtxGetCurrent", &entry, 4000, cudaEnableDefault, &found));
#else
  CUDA_CHECK(cudaGetDriverEntryPoint("cuCtxGetCurrent", &entry, cudaEnableDefault, &found));
#endif
  CUcontext context = nullptr;
  if (entry == nullptr || reinterpret_cast<CtxGetCurrent>(entry)(&context) != CUDA_SUCCESS ||
      context == nullptr) {
    throw CountersUnavailable("no CUDA context to read counters of");
  }
  CuptiTarget target;
  target.context = context;
  CUDA_CHECK(cudaGetDevice(&target.device));
  return make_cupti_profiler(device, target, {});
}

}  // namespace flashbench
