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

/// A folded weight on the device; its memory is there while anyone holds it.
using WeightHandle = std::shared_ptr<const Buffer>;

/// Folded weights on a device, outliving every program. A weight is an expression over the checkpoint's params (a cast,
/// a concatenation, ...) in the form a kernel asked for; programs of any shape and batch share it by its key. What one
/// node makes (a quantized weight and its scales) is folded together, all else by itself, streamed from the mapped
/// checkpoint or drawn on the device: peak memory is the folded weights plus the largest one. Addresses never move.
/// Sessions hold what they use: a weight that the store drops stays until the last of them ends, and until then is taken up again
/// where another program needs it.
class WeightStore {
 public:
  /// Both must outlive the store.
  WeightStore(Backend& backend, const Checkpoint& checkpoint) : backend_(backend), checkpoint_(checkpoint) {}

  /// Folds every weight of `program` that is not here yet. Throws Error naming a param that the checkpoint lacks or
  /// holds otherwise.
  void load(const Program& program);

  /// What load() would need.
  [[nodiscard]] LoadNeed need_of(const Program& program) const;

  /// Drops every weight that `program` does not use: what no session uses is freed at once.
  void keep_only(const Program& program);

  /// A loaded weight, to be held while it is used.
  [[nodiscard]] WeightHandle weight(const WeightUse& use) const;
  /// Device bytes of the weights that the store holds, and how many those are.
  [[nodiscard]] std::size_t bytes() const noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return kept_.size(); }

 private:
  using Key = std::pair<std::string, std::string>;
  using Uses = std::vector<const WeightUse*>;
  [[nodiscard]] std::vector<Uses> list_missing(const Program& program) const;
  void fold(const Program& program, const Uses& uses, const std::shared_ptr<Stream>& stream);
  [[nodiscard]] Buffer take_param(const Value& param, Stream& stream);
  [[nodiscard]] Buffer pack(const WeightUse& use, const std::byte* dense, Stream& stream);
  void keep(const WeightUse& use, Buffer folded);
  void take_up(const WeightUse& use);
  [[nodiscard]] bool is_there(const WeightUse& use) const;
  void check_param(const Graph& graph, ValueId param) const;

  Backend& backend_;
  const Checkpoint& checkpoint_;
  std::map<Key, WeightHandle> kept_;
  std::map<Key, std::weak_ptr<const Buffer>> dropped_;  // that a session may still hold
};

}  // namespace headroom
