#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "io/checkpoint.hpp"
#include "plan/program.hpp"

namespace headroom {

/// What loading a program's weights adds to what a store holds, in bytes.
struct LoadNeed {
  std::size_t weights = 0;  ///< kept
  /// The most at once on the way, within one weight: what a weight is folded from is there for a moment beside those
  /// loaded before.
  std::size_t peak = 0;
};

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
  void load(const Program& program);

  /// What load() would need.
  [[nodiscard]] LoadNeed need_of(const Program& program) const;

  /// Frees every weight that `program` does not use.
  void keep_only(const Program& program);

  /// Device address of a loaded weight.
  [[nodiscard]] std::byte* address(const std::string& key, const std::string& layout) const;
  /// Device bytes held.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::size_t size() const noexcept { return weights_.size(); }

 private:
  using Key = std::pair<std::string, std::string>;
  using Uses = std::vector<const WeightUse*>;
  [[nodiscard]] std::vector<Uses> list_missing(const Program& program) const;
  void fold(const Program& program, const Uses& uses, const std::shared_ptr<Stream>& stream);
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
