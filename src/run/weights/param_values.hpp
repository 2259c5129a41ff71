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

/// What params are: tensors of checkpoints, of which several have names and one may have none (ir/param_name.hpp), or
/// what stands in their place since they were changed; and what is added to them.
class ParamValues {
 public:
  /// `checkpoint` must outlive this. Throws Error where the name is taken or no name.
  void add(std::string name, const Checkpoint& checkpoint);

  /// Throws Error naming the checkpoint and the param where that is not there, or is another dtype or shape.
  void require(const std::string& param, DType dtype, const Shape& shape) const;

  /// Throws as require() does, for the value's dtype and shape.
  void change(const std::string& param, HostTensor value);
  /// Throws Error where there is no such param.
  void restore(const std::string& param);

  /// Makes all params what they are beside these updates. Throws Error naming a param that there is not, or that an update
  /// does not fit; nothing is updated then.
  void set_updates(ParamUpdates updates);
  [[nodiscard]] const ParamUpdates& updates() const noexcept { return updates_; }
  /// Of one param; null where there is none.
  [[nodiscard]] const ParamUpdate* update(std::string_view param) const;

  /// How a device draws the param; nothing where it has bytes.
  [[nodiscard]] std::optional<NormalStream> normal_stream(const std::string& param) const;
  /// Its elements without what is added to them, row-major, perhaps unaligned; valid until release(param), or until it changes.
  [[nodiscard]] std::span<const std::byte> bytes(const std::string& param) const;
  /// Gives back the memory of a checkpoint behind bytes(param); it can be asked for again.
  void release(const std::string& param) const;

 private:
  struct Tensor {
    const Checkpoint* checkpoint = nullptr;
    std::string_view name;
    std::string description;  ///< of the checkpoint
  };
  [[nodiscard]] Tensor find(const std::string& param) const;
  /// What stands in place of the checkpoint's; null for nothing.
  [[nodiscard]] const HostTensor* replacement(const std::string& param) const;

  std::map<std::string, const Checkpoint*, std::less<>> checkpoints_;  // by name, which may be empty
  std::map<std::string, HostTensor> changed_;                          // by param
  ParamUpdates updates_;
};

}  // namespace headroom
