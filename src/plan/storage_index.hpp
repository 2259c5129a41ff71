#pragma once

#include <optional>
#include <span>
#include <vector>

#include "plan/draft.hpp"
#include "plan/program.hpp"

namespace headroom {

/// Which storage each value lies in, and who lies in each storage. It begins as the draft has it; then values that are
/// never needed at the same time are moved into one storage.
class StorageIndex {
 public:
  /// With `outputs_apart`, an output that is a result is no activation, and stays where it is.
  StorageIndex(const Draft& draft, bool outputs_apart);

  /// Storage -1 for weights and values that nobody makes.
  [[nodiscard]] const Place& place(ValueId v) const { return places_[index_of(v)]; }
  [[nodiscard]] const Storage& storage(int s) const { return storages_[static_cast<std::size_t>(s)]; }
  [[nodiscard]] std::span<const ValueId> values_in(int s) const { return values_[static_cast<std::size_t>(s)]; }
  /// In moments of the draft's timeline.
  [[nodiscard]] Lifetime lifetime(int s) const;
  /// Whether `v` has an activation's storage to itself and what lies inside it.
  [[nodiscard]] bool owns_activation(ValueId v) const;
  /// Whether the kernels that make and read `v` accept it there.
  [[nodiscard]] bool fits(ValueId v, const Shape& strides, std::size_t offset) const;
  /// Whether the kernel that makes `out` may write it where some of its operands lie: over elements that it reads for
  /// that very element of the result, and no others.
  [[nodiscard]] bool may_write_over(ValueId out, const Place& target) const;

  /// Moves `v`, which begins its storage, and all that lies there to `target`.
  void move(ValueId v, const Place& target);

  /// The storages that something lies in, renumbered, and where each value lies in them.
  void finish(std::vector<Storage>& storages, std::vector<Place>& places, std::vector<Lifetime>& lifetimes) const;

 private:
  const Draft& draft_;
  std::vector<Place> places_;  // by value
  std::vector<Storage> storages_;
  std::vector<std::vector<ValueId>> values_;                // by storage
  mutable std::vector<std::optional<Lifetime>> lifetimes_;  // by storage, where known
};

}  // namespace headroom
