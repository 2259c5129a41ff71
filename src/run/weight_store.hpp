#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "backends/backend.hpp"
#include "io/checkpoint.hpp"
#include "plan/program.hpp"

namespace headroom {

/// Called while weights load: how many of `total` are in place.
using LoadObserver = std::function<void(std::size_t done, std::size_t total)>;

/// Folded weights on a device, outliving every program. A weight is an expression over the checkpoint's params (a cast,
/// a concatenation, ...) in the form a kernel asked for; programs of any shape and batch share it by its key. What one
/// node makes (a quantized weight and its scales) is folded together, all else by itself, streamed from the mapped
/// checkpoint or drawn on the device: peak memory is the folded weights plus the largest one. Addresses never move.
class WeightStore {
 public:
  /// Both must outlive the store.
  WeightStore(Backend& backend, const Checkpoint& checkpoint) : backend_(backend), checkpoint_(checkpoint) {}

  /// Folds every weight of `program` that is not here yet. Throws Error naming a param that the checkpoint lacks or
  /// holds otherwise.
  void load(const Program& program, const LoadObserver& observer = {});

  /// Frees every weight that `program` does not use.
  void keep_only(const Program& program);

  /// Device address of a loaded weight.
  [[nodiscard]] std::byte* address(const std::string& key, const std::string& layout) const;
  /// Device bytes held.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::size_t size() const noexcept { return weights_.size(); }

 private:
  using Key = std::pair<std::string, std::string>;
  void fold(const Program& program, const std::vector<int>& producers, const std::vector<const WeightUse*>& uses,
            const std::shared_ptr<Stream>& stream);
  [[nodiscard]] Buffer take_param(const Value& param, Stream& stream);
  [[nodiscard]] Buffer pack(const WeightUse& use, const std::byte* dense, Stream& stream);
  void keep(const WeightUse& use, Buffer folded);
  void check_param(const Graph& graph, ValueId param) const;

  Backend& backend_;
  const Checkpoint& checkpoint_;
  std::map<Key, Buffer> weights_;
  std::size_t bytes_ = 0;
};

}  // namespace headroom
