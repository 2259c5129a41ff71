#include "ir/ranks/collectives.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "ir/op_definition.hpp"

namespace headroom {
namespace {

/// Whether the operand of a rank has that rank's share along `axis`.
bool has_own_share(Op op) { return op == Op::kAllGather || op == Op::kAllToAll || op == Op::kShift; }

Collective describe_collective(const Graph& graph, const Node& node) {
  const TensorType& type = graph.type(node.inputs[0]);
  const Attributes& attributes = node.attributes;
  std::vector<std::string> extents;
  for (int axis = 0; axis < type.shape.rank(); ++axis) extents.push_back(std::to_string(type.shape[axis]));
  if (has_own_share(node.op)) extents[static_cast<std::size_t>(attributes[attr::kAxis])] = "*";

  Collective collective;
  collective.group = attributes[attr::kGroup];
  collective.text = fmt::format("{} of {} by {} ranks", name_of(node.op), name_of(type.dtype), collective.group.size());
  if (attributes.has(attr::kLargest)) collective.text += attributes[attr::kLargest] ? ", largest" : ", sum";
  if (!node.path.empty()) collective.text += " at " + node.path;
  collective.with_shares = fmt::format("[{}]", fmt::join(extents, ", "));
  if (attributes.has(attr::kShares))
    collective.with_shares +=
        fmt::format(" along axis {}, shares {}", attributes[attr::kAxis], fmt::join(attributes[attr::kShares], ", "));
  if (attributes.has(attr::kSplit))
    collective.with_shares +=
        fmt::format(", parts {} of axis {}", fmt::join(attributes[attr::kSplit], ", "), attributes[attr::kSplitAxis]);
  collective.with_shares += fmt::format(", in group {}", fmt::join(collective.group, ", "));
  return collective;
}

}  // namespace

TensorType operand_of_member(Op op, const Attributes& attributes, const TensorType& own, std::size_t member) {
  TensorType type = own;
  if (has_own_share(op)) type.shape.set(static_cast<int>(attributes[attr::kAxis]), attributes[attr::kShares][member]);
  return type;
}

std::vector<Collective> collectives_of(const Graph& graph) {
  std::vector<Collective> collectives;
  for (const Node& node : graph.nodes())
    if (definition_of(node.op).is_collective) collectives.push_back(describe_collective(graph, node));
  return collectives;
}

void require_equal_collectives(std::span<const Graph* const> graphs) {
  std::vector<std::vector<Collective>> lists;
  for (const Graph* graph : graphs) lists.push_back(collectives_of(*graph));
  const auto require_equal = [](std::size_t i, std::size_t a, std::string_view of_a, std::size_t b,
                                std::string_view of_b) {
    if (of_a != of_b)
      fail("ranks cannot run together: collective {} is {} for rank {}, and {} for rank {}", i + 1, of_a, a, of_b, b);
  };
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    const std::vector<Collective>&list = lists[rank], &first = lists[0];
    for (std::size_t i = 0; i < std::max(list.size(), first.size()); ++i) {
      const auto text_at = [&](const std::vector<Collective>& of) {
        return i < of.size() ? std::string_view(of[i].text) : "none";
      };
      require_equal(i, 0, text_at(first), rank, text_at(list));
    }
  }
  for (std::size_t rank = 0; rank < lists.size(); ++rank)
    for (std::size_t i = 0; i < lists[rank].size(); ++i)
      for (const std::int64_t member : lists[rank][i].group) {
        if (member >= std::ssize(lists))
          fail("ranks cannot run together: {} is with rank {}, and there are {}", lists[rank][i].text, member,
               lists.size());
        const auto other = static_cast<std::size_t>(member);
        require_equal(i, rank, lists[rank][i].with_shares, other, lists[other][i].with_shares);
      }
}

}  // namespace headroom
