#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/tensors/host_tensor.hpp"
#include "base/tensors/random.hpp"
#include "io/checkpoint.hpp"
#include "ir/graph.hpp"
#include "run/weights/param_update.hpp"

namespace headroom {

/// The values of params: tensors of checkpoints, all but one of which have names (ir/param_name.hpp), or
/// replacements; and the updates that are added to them.
class ParamValues {
 public:
  /// `checkpoint` must outlive this. Throws Error for an invalid name and one that is already used.
  void add(std::string name, const Checkpoint& checkpoint);

  /// Throws Error with the checkpoint and param if that is missing, or has another dtype or shape.
  void require(const std::string& param, DType dtype, const Shape& shape) const;

  /// Throws as require() does, for the value's dtype and shape.
  void change(const std::string& param, HostTensor value);
  /// Throws Error for an unknown param.
  void restore(const std::string& param);

  /// Replaces the updates of all params. Throws Error for an unknown param, or one that an update does not fit;
  /// nothing is changed then.
  void set_updates(ParamUpdates updates);
  [[nodiscard]] const ParamUpdates& updates() const noexcept { return updates_; }
  /// The update of one param; null if there is none.
  [[nodiscard]] const ParamUpdate* update(std::string_view param) const;

  /// The random stream of a param with random weights; nothing if it has bytes.
  [[nodiscard]] std::optional<NormalStream> normal_stream(const std::string& param) const;
  /// Its elements without updates as a param of that dtype, row-major, possibly unaligned; valid until release(param),
  /// or until the param changes. Blocks are a param of bytes.
  [[nodiscard]] std::span<const std::byte> bytes(const std::string& param, DType dtype) const;
  /// Its elements in memory of the device, if the checkpoint has them there (TensorSource::device_bytes).
  [[nodiscard]] std::optional<std::span<const std::byte>> device_bytes(const std::string& param) const;
  /// Whether its checkpoint will free the tensor's memory when it is finished, and tells it that it is.
  [[nodiscard]] bool is_freed(const std::string& param) const;
  void finish(const std::string& param) const;
  /// Releases the checkpoint memory of bytes(param); it can be requested again.
  void release(const std::string& param) const;

 private:
  struct Tensor {
    const Checkpoint* checkpoint = nullptr;
    std::string_view name;
    std::string description;  ///< of the checkpoint
  };
  [[nodiscard]] Tensor find(const std::string& param) const;
  /// Throws Error for a tensor in blocks.
  static void refuse_blocks(const Tensor& tensor);
  /// The replacement of the checkpoint's value; null if there is none.
  [[nodiscard]] const HostTensor* replacement(const std::string& param) const;

  std::map<std::string, const Checkpoint*, std::less<>> checkpoints_;  // by name, which may be empty
  std::map<std::string, HostTensor> changed_;                          // by param
  ParamUpdates updates_;
};

}  // namespace headroom
