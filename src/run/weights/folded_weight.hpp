#pragma once

#include <cstddef>
#include <memory>

#include "backends/backend.hpp"

namespace headroom {

/// A folded weight on the device. Its memory exists while a handle to it does, except while it is unloaded. Its
/// address never changes.
class FoldedWeight {
 public:
  /// Allocates memory for a weight that is not folded yet. Throws Error if there is none.
  FoldedWeight(Backend& backend, std::size_t bytes);

  [[nodiscard]] DevicePointer at() const noexcept { return buffer_.at(); }
  /// Bytes on the device now.
  [[nodiscard]] std::size_t bytes() const noexcept { return buffer_.is_loaded() ? buffer_.bytes() : 0; }
  /// Whether it has its last folded content, for work that is submitted from now on to a stream ordered after the
  /// stream of weights.
  [[nodiscard]] bool is_loaded() const noexcept { return is_folded_; }
  [[nodiscard]] bool can_unload() const noexcept { return buffer_.can_unload(); }

  /// The work that folds it has been submitted.
  void set_folded() noexcept { is_folded_ = true; }
  /// The next folding gives another result, so the host copy is invalid.
  void forget_host_copy() noexcept { has_host_copy_ = false; }
  /// Its content is invalid until it is folded again.
  void set_stale() noexcept { is_folded_ = false; }

  /// Frees its memory after all previously submitted work. On a device with separate memory, its bytes stay on the
  /// host; `stream` copies them there if no copy exists.
  void unload(Backend& backend, Stream& stream);
  /// Allocates memory again, and `stream` copies its bytes from the host. Without a host copy it must be folded
  /// again.
  void reload(Stream& stream);

 private:
  Buffer buffer_;
  std::unique_ptr<HostCopy> host_copy_;  // made by the first unload()
  bool has_host_copy_ = false;           // of the last folded content
  bool is_folded_ = false;
};

/// Held by each user of the weight.
using WeightHandle = std::shared_ptr<FoldedWeight>;

}  // namespace headroom
