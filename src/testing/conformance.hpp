#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "ir/test_cases/op_cases.hpp"

namespace headroom {

/// What a device does with a case.
enum class Conformity : std::uint8_t {
  kRuns,     ///< every kernel that takes it agrees with the interpreter
  kDiffers,  ///< a kernel that takes it does not
  kLacks,    ///< no kernel takes it
};
/// "runs", "differs", "lacks"
[[nodiscard]] std::string_view name_of(Conformity conformity);

/// A case on a device.
struct CaseOutcome {
  OpCase one;
  CaseTypes types;
  Conformity is = Conformity::kLacks;
  std::vector<std::string_view> kernels = {};  ///< that ran it
  double relative_l2 = 0;                      ///< the largest of these kernels
  /// Of a difference: the kernel, and the first bad element. Of a lack: why each kernel does not run it.
  std::string reason = {};
};

struct ConformanceProgress {
  Op op;
  std::size_t done = 0, total = 0;
};

/// The small cases in all their dtypes that a device is asked for: of `op`, or of every op. Equal specs appear once.
[[nodiscard]] std::vector<CaseOutcome> conformance_cases(std::optional<Op> op);

/// Runs the cases on each kernel of the device that takes them, on random operands, and compares with the interpreter
/// as kernel tests do (compare_on()). The target may be narrower than the backend's own. Nothing is timed or stored in
/// the tuning cache.
[[nodiscard]] std::vector<CaseOutcome> check_conformance(
    Backend& backend, const DeviceTarget& target, std::vector<CaseOutcome> cases,
    const std::function<void(ConformanceProgress)>& on_progress = {});

}  // namespace headroom
