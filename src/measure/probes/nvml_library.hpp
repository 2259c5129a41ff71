#pragma once

#include <dlfcn.h>

#include <string>
#include <utility>

namespace headroom {

/// Bits of nvmlDeviceGetCurrentClocksThrottleReasons, whose values are stable (nvml.h).
namespace throttle {
inline constexpr unsigned long long kIdle = 0x1;
inline constexpr unsigned long long kClockSetting = 0x2;  ///< ApplicationsClocksSetting
inline constexpr unsigned long long kPowerCap = 0x4;      ///< SwPowerCap
/// HwSlowdown, SwThermalSlowdown, HwThermalSlowdown and HwPowerBrakeSlowdown.
inline constexpr unsigned long long kHeldDown = 0x8 | 0x20 | 0x40 | 0x80;
}  // namespace throttle

/// NVIDIA's management library (NVML), which comes with the driver: opened by its name and begun, so that its functions
/// can be called. Closed at the end.
class NvmlLibrary {
 public:
  static constexpr int kSuccess = 0;           ///< NVML_SUCCESS
  static constexpr int kNoFunction = -1;       ///< of call() and status(): the library or the function is not there
  static constexpr int kVersionMismatch = 18;  ///< NVML_ERROR_LIB_RM_VERSION_MISMATCH

  explicit NvmlLibrary(const std::string& name) : file_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    status_ = call_status("nvmlInit_v2");
  }
  ~NvmlLibrary() {
    if (file_ == nullptr) return;
    if (is_open()) (void)call("nvmlShutdown");
    dlclose(file_);
  }
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  /// Of nvmlInit_v2, or kNoFunction.
  [[nodiscard]] int status() const noexcept { return status_; }
  [[nodiscard]] bool is_open() const noexcept { return status_ == kSuccess; }
  /// Whether there is a library of that name at all.
  [[nodiscard]] bool is_found() const noexcept { return file_ != nullptr; }

  /// The status of a function, by its name in nvml.h.
  template <typename... Parameters>
  [[nodiscard]] int call_status(const char* name, Parameters... parameters) const {
    if (file_ == nullptr) return kNoFunction;
    const auto function = reinterpret_cast<int (*)(Parameters...)>(dlsym(file_, name));  // NOLINT: what dlsym is for
    return function == nullptr ? kNoFunction : function(parameters...);
  }
  /// Whether it succeeded.
  template <typename... Parameters>
  [[nodiscard]] bool call(const char* name, Parameters... parameters) const {
    return call_status(name, parameters...) == kSuccess;
  }

 private:
  void* file_;
  int status_ = kNoFunction;
};

}  // namespace headroom
