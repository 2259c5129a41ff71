// CUPTI requests buffers, fills them with activity records, and returns them on a thread of its own or at a flush.
// The records are moved at once into one list, which collect() takes.

#include <cuda_runtime_api.h>
#include <cupti.h>
#include <cxxabi.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/cuda/cuda_check.cuh"
#include "backends/cuda/cupti/trace.hpp"
#include "backends/cuda/sonames.hpp"
#include "base/error.hpp"
#include "base/files/opened_library.hpp"

namespace headroom::cuda {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{4} << 20;
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMSET};

struct Library {
#define HR_CUPTI(function) decltype(&::cupti##function) function = nullptr;
#include "backends/cuda/cupti/functions.def"
#undef HR_CUPTI
};

Library open_library() {
  const GpuSonames names = gpu_sonames().value();
  const OpenedLibrary file("tracing a GPU", names.cupti, fmt::format("CUPTI of CUDA {}", names.cuda_major));
  Library library;
#define HR_CUPTI(function) file.resolve(library.function, "cupti" #function);
#include "backends/cuda/cupti/functions.def"
#undef HR_CUPTI
  return library;
}

const Library& library() {
  static const Library kLibrary = open_library();
  return kLibrary;
}

void check_cupti(CUptiResult status, const char* what) {
  if (status == CUPTI_SUCCESS) return;
  const char* text = "an unknown error";
  static_cast<void>(library().GetResultString(status, &text));
  fail("CUPTI cannot {}: {}", what, text);
}

/// The records that the library's threads have delivered.
class Inbox {
 public:
  void add(DeviceActivity activity) {
    const std::scoped_lock lock(mutex_);
    activities_.push_back(std::move(activity));
  }
  std::vector<DeviceActivity> take() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(activities_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<DeviceActivity> activities_;
};

Inbox& inbox() {
  static Inbox box;
  return box;
}

std::atomic<bool>& is_tracing() {
  static std::atomic<bool> tracing{false};
  return tracing;
}

/// The device whose work is traced; other ranks may use others meanwhile.
std::atomic<std::uint32_t>& traced_device() {
  static std::atomic<std::uint32_t> device{0};
  return device;
}

template <typename Record>
DeviceActivity activity_of(const Record& record, DeviceActivity::Kind kind, std::string name) {
  return {.kind = kind,
          .name = std::move(name),
          .start_ns = static_cast<std::int64_t>(record.start),
          .end_ns = static_cast<std::int64_t>(record.end),
          .stream = static_cast<std::int64_t>(record.streamId),
          .bytes = 0,
          .launch = record.correlationId,
          .in_replay = record.graphNodeId};
}

void read_record(const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
      if (kernel.deviceId != traced_device()) break;
      inbox().add(activity_of(kernel, DeviceActivity::Kind::kKernel, kernel.name == nullptr ? "" : kernel.name));
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
      if (copy.deviceId != traced_device()) break;
      const bool is_inside = copy.copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
      inbox().add(activity_of(copy, is_inside ? DeviceActivity::Kind::kCopy : DeviceActivity::Kind::kHostCopy, "copy"));
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& fill = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
      if (fill.deviceId == traced_device()) inbox().add(activity_of(fill, DeviceActivity::Kind::kFill, "fill"));
      break;
    }
    default:
      break;
  }
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;  // as many as fit
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t filled) {
  CUpti_Activity* record = nullptr;
  while (library().ActivityGetNextRecord(buffer, filled, &record) == CUPTI_SUCCESS) read_record(*record);
  std::free(buffer);
}

/// "void copy_kernel<uint4>(...)" of "_Z11copy_kernel..."; other names as they are.
std::string demangled(const std::string& name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 && text != nullptr ? text : name;
  std::free(text);
  return result;
}

class CuptiTrace final : public DeviceTrace {
 public:
  CuptiTrace() {
    static_cast<void>(library());
    if (is_tracing().exchange(true)) fail("the GPU is being traced already, and there is one trace at a time");
    int device = 0;
    static_cast<void>(cudaGetDevice(&device));
    traced_device() = static_cast<std::uint32_t>(device);
    try {
      check_cupti(library().ActivityRegisterCallbacks(give_buffer, take_buffer), "take callbacks");
      for (const CUpti_ActivityKind kind : kKinds) check_cupti(library().ActivityEnable(kind), "record activities");
      static_cast<void>(collect());
    } catch (...) {
      stop();
      throw;
    }
  }
  ~CuptiTrace() override { stop(); }
  CuptiTrace(const CuptiTrace&) = delete;
  CuptiTrace& operator=(const CuptiTrace&) = delete;

  [[nodiscard]] std::int64_t now_ns() const override {
    std::uint64_t now = 0;
    check_cupti(library().GetTimestamp(&now), "tell the time");
    return static_cast<std::int64_t>(now);
  }

  [[nodiscard]] std::vector<DeviceActivity> collect() override {
    check(cudaDeviceSynchronize());
    check_cupti(library().ActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "hand over its records");
    std::vector<DeviceActivity> activities = inbox().take();
    std::ranges::stable_sort(activities, {}, &DeviceActivity::start_ns);
    std::map<std::string, std::string> names;
    for (DeviceActivity& activity : activities) {
      const auto [known, is_new] = names.try_emplace(activity.name);
      if (is_new) known->second = demangled(activity.name);
      activity.name = known->second;
    }
    return activities;
  }

 private:
  static void stop() noexcept {
    for (const CUpti_ActivityKind kind : kKinds) static_cast<void>(library().ActivityDisable(kind));
    static_cast<void>(library().ActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
    static_cast<void>(inbox().take());
    is_tracing() = false;
  }
};

}  // namespace

std::unique_ptr<DeviceTrace> make_cupti_trace() { return std::make_unique<CuptiTrace>(); }

}  // namespace headroom::cuda
