#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/graph.hpp"
#include "plan/choose.hpp"
#include "plan/timeline.hpp"

namespace headroom {

/// One read of a value, and its moment.
struct Read {
  int moment = 0;
  int node = -1;  ///< in the chosen kernels; -1 for reads by outputs, states and regions
  int input = 0;
};

/// The planned memory layout of values, while placement decides which values share a storage as views of each other
/// or as parts of one value. The phases of placement share it. Storages are assigned after that (StorageIndex).
struct Draft {
  Draft(const Graph& of, const std::vector<ChosenKernel>& kernels, const std::vector<bool>& weights);

  /// A value that lies inside another one.
  struct Link {
    ValueId base = kNoValue;
    std::size_t offset = 0;  ///< bytes from its start
  };

  const Graph& graph;
  const std::vector<ChosenKernel>& chosen;
  const std::vector<bool>& is_weight;
  Timeline timeline;
  std::vector<int> maker;                // by value: the chosen kernel that makes it, or -1
  std::vector<int> made;                 // by value: the first moment at which it may be written, -1 for before all
  std::vector<std::vector<Read>> reads;  // by value
  std::vector<bool> is_copied;           // by value: an output, next state or region result: dense, in its own storage
  std::vector<Link> links;               // by value
  std::vector<Shape> strides;            // by value
  std::vector<std::size_t> bytes;        // by value: bytes of the storage that starts with it, if one does
  std::vector<bool> elided;              // by chosen kernel: its result is a view or written to its destination

  [[nodiscard]] const Node& node(int position) const {
    return graph.nodes()[static_cast<std::size_t>(chosen[static_cast<std::size_t>(position)].node)];
  }
  [[nodiscard]] bool is_linked(ValueId v) const { return links[index_of(v)].base != kNoValue; }
  /// Whether its storage holds values after `v` that are no views of it.
  [[nodiscard]] bool is_followed(ValueId v) const { return bytes[index_of(v)] > graph.type(v).bytes(); }
  /// Whether a kernel makes `v` and it has no place yet.
  [[nodiscard]] bool may_be_placed(ValueId v) const {
    return maker[index_of(v)] >= 0 && !is_linked(v) && !is_followed(v) && !is_copied[index_of(v)];
  }
  /// Places `v` inside another value, with these strides.
  void place(ValueId v, const Link& link, const Shape& at);
  /// The value whose storage contains `v`, and the offset in it.
  [[nodiscard]] Link root_of(ValueId v) const;

  /// Whether all readers of `v`, including readers of its views, accept it with these strides at `offset` bytes into
  /// its storage. The reader `except` is not checked.
  [[nodiscard]] bool readers_accept(ValueId v, const Shape& at, std::size_t offset, int except = -1) const;
  /// Whether the kernel of `read` accepts these strides and this offset.
  [[nodiscard]] bool kernel_accepts(const Read& read, ValueId v, const Shape& at, std::size_t offset) const;
  /// Whether the kernel that makes `v` can write it with these strides and this offset.
  [[nodiscard]] bool maker_accepts(ValueId v, const Shape& at, std::size_t offset) const;
  /// Whether the result of a view op would be a view if its operand were dense.
  [[nodiscard]] bool is_natural_view(const Node& view_op) const;
  /// The last moment at which `v` or a possible view of it is read, if it holds its content from `first` on.
  [[nodiscard]] int needed_until(ValueId v, int first) const;

 private:
  void find_makers_and_reads();
};

}  // namespace headroom
