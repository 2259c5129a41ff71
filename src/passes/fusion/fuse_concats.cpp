// fuse-concats: k = concat(slice(x, 0..n), slice(m, 0..n)), v = concat(slice(x, n..p), slice(m, n..p))
//            -> kv = concat(slice(x, 0..p), slice(m, 0..p)), and k, v are slices of it
//
// fuse-qkv makes keys and values of tokens adjacent, and likewise those of a memory or of an image. If attention
// reads both concatenated, this is one copy, and its parts are views. Only concatenations along another axis than the
// slices' are joined.

#include <cstdint>
#include <map>
#include <tuple>

#include "passes/pass.hpp"
#include "passes/rewrite.hpp"

namespace headroom {
namespace {

/// A slice of `whole` along `axis`.
struct SlicedPart {
  ValueId whole;
  std::int64_t axis, start, size;
};

SlicedPart part_of(const Node& slice) {
  const Attributes& how = slice.attributes;
  return {slice.inputs[0], how[attr::kAxis], how[attr::kStart], how[attr::kExtent]};
}

class ConcatFuser {
 public:
  bool operator()(Rewriter& r, const Node& node) {
    if (node.op == Op::kSlice) {
      const SlicedPart part = part_of(node);
      slices_.insert_or_assign({part.whole, part.axis, part.start}, node.results[0]);
      return false;
    }
    return node.op == Op::kConcat && fuse(r, node);
  }

 private:
  bool fuse(Rewriter& r, const Node& first) const {
    const Node* const slice = r.match(first.inputs[0], Op::kSlice);
    if (slice == nullptr) return false;
    const SlicedPart part = part_of(*slice);
    if (part.axis == first.attributes[attr::kAxis]) return false;
    const auto next = slices_.find({part.whole, part.axis, part.start + part.size});
    if (next == slices_.end()) return false;
    for (const Node* second : r.readers_from_here(next->second))
      if (are_neighbours(r, first, *second, part.axis)) {
        join(r, first, *second, part.axis);
        return true;
      }
    return false;
  }

  /// Whether every input of the second is the continuation of that of the first in one value, along the axis.
  static bool are_neighbours(const Rewriter& r, const Node& first, const Node& second, std::int64_t axis) {
    if (second.op != Op::kConcat || second.region != first.region || second.inputs.size() != first.inputs.size() ||
        second.attributes != first.attributes)
      return false;
    for (std::size_t i = 0; i < first.inputs.size(); ++i) {
      const Node *const a = r.match(first.inputs[i], Op::kSlice), *const b = r.match(second.inputs[i], Op::kSlice);
      if (a == nullptr || b == nullptr) return false;
      const SlicedPart of_a = part_of(*a), of_b = part_of(*b);
      if (of_a.whole != of_b.whole || of_a.axis != axis || of_b.axis != axis || of_a.start + of_a.size != of_b.start)
        return false;
    }
    return true;
  }

  static void join(Rewriter& r, const Node& first, const Node& second, std::int64_t axis) {
    const auto slice = [&](ValueId of, std::int64_t start, std::int64_t size) {
      return r.emit(Op::kSlice, {of}, {{attr::kAxis, axis}, {attr::kStart, start}, {attr::kExtent, size}}, first.path);
    };
    const ValueId made = first.results[0], made_later = second.results[0];
    std::vector<ValueId> parts;
    for (std::size_t i = 0; i < first.inputs.size(); ++i) {
      const SlicedPart a = part_of(*r.match(first.inputs[i], Op::kSlice));
      parts.push_back(slice(a.whole, a.start, a.size + part_of(*r.match(second.inputs[i], Op::kSlice)).size));
    }
    const ValueId both = r.emit_like(first, std::move(parts), first.attributes);
    const std::int64_t size = r.shape(made)[static_cast<int>(axis)];
    const ValueId former = slice(both, 0, size),
                  latter = slice(both, size, r.shape(both)[static_cast<int>(axis)] - size);
    r.replace(made, former);
    r.replace(made_later, latter);
  }

  std::map<std::tuple<ValueId, std::int64_t, std::int64_t>, ValueId>
      slices_;  // a slice of a value along an axis, from an element on
};

}  // namespace

PassOutcome fuse_concats(Graph& graph, const Target&) { return {.rewrites = rewrite_each(graph, ConcatFuser())}; }

}  // namespace headroom
