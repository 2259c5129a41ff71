#pragma once

#include <optional>
#include <span>
#include <vector>

#include "plan/draft.hpp"
#include "plan/program.hpp"

namespace headroom {

/// The storage of each value, and the values in each storage. It starts from the draft; then values that are never
/// live at the same time are moved into one storage.
class StorageIndex {
 public:
  /// With `outputs_apart`, an output that is a result does not count as an activation and is not moved.
  StorageIndex(const Draft& draft, bool outputs_apart);

  /// Storage -1 for weights and for values that no node produces.
  [[nodiscard]] const Place& place(ValueId v) const { return places_[index_of(v)]; }
  [[nodiscard]] const Storage& storage(int s) const { return storages_[static_cast<std::size_t>(s)]; }
  [[nodiscard]] std::span<const ValueId> values_in(int s) const { return values_[static_cast<std::size_t>(s)]; }
  /// In moments of the draft's timeline.
  [[nodiscard]] Lifetime lifetime(int s) const;
  /// Whether `v` is an activation that shares its storage only with values that lie inside it.
  [[nodiscard]] bool owns_activation(ValueId v) const;
  /// Whether the kernels that write and read `v` accept these strides and this offset.
  [[nodiscard]] bool fits(ValueId v, const Shape& strides, std::size_t offset) const;
  /// Whether the kernel that writes `out` may overwrite some of its operands: only elements that it reads for that
  /// very element of the result.
  [[nodiscard]] bool may_write_over(ValueId out, const Place& target) const;

  /// Moves `v`, which is at the start of its storage, and all values in that storage to `target`.
  void move(ValueId v, const Place& target);

  /// The storages in use, renumbered, and the place of each value in them.
  void finish(std::vector<Storage>& storages, std::vector<Place>& places, std::vector<Lifetime>& lifetimes) const;

 private:
  const Draft& draft_;
  std::vector<Place> places_;  // by value
  std::vector<Storage> storages_;
  std::vector<std::vector<ValueId>> values_;                // by storage
  mutable std::vector<std::optional<Lifetime>> lifetimes_;  // by storage, where known
};

}  // namespace headroom
