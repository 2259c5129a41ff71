#pragma once

#include <cstddef>
#include <memory>

#include "backends/backend.hpp"

namespace headroom {

/// A folded weight on the device. Its memory is there while anyone holds it, but for the time that it is unloaded; its
/// place stays.
class FoldedWeight {
 public:
  /// With memory, and yet to be folded. Throws Error where there is none.
  FoldedWeight(Backend& backend, std::size_t bytes);

  [[nodiscard]] DevicePointer at() const noexcept { return buffer_.at(); }
  /// On the device now.
  [[nodiscard]] std::size_t bytes() const noexcept { return buffer_.is_loaded() ? buffer_.bytes() : 0; }
  /// Whether it is as it was folded last, when a stream comes to what it is given from now on that is ordered behind
  /// the one of weights.
  [[nodiscard]] bool is_loaded() const noexcept { return is_folded_; }
  [[nodiscard]] bool can_unload() const noexcept { return buffer_.can_unload(); }

  /// What folds it has been submitted.
  void set_folded() noexcept { is_folded_ = true; }
  /// It is to be folded otherwise than before.
  void forget_host_copy() noexcept { has_host_copy_ = false; }
  /// What lies there is not what it should be, until it is folded again.
  void set_stale() noexcept { is_folded_ = false; }

  /// Gives its memory back behind all work submitted before. On a device with memory of its own its bytes stay on the
  /// host, where `stream` copies them unless they are there.
  void unload(Backend& backend, Stream& stream);
  /// Takes memory again, and has `stream` copy its bytes from the host. Without such a copy it is yet to be folded.
  void reload(Stream& stream);

 private:
  Buffer buffer_;
  std::unique_ptr<HostCopy> host_copy_;  // made when it is first unloaded
  bool has_host_copy_ = false;           // of what it was folded last
  bool is_folded_ = false;
};

/// Held by whoever uses it.
using WeightHandle = std::shared_ptr<FoldedWeight>;

}  // namespace headroom
