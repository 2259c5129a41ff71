#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "ir/graph.hpp"

namespace headroom {

/// How ranks have a value.
struct Sharing {
  enum class Kind {
    kUnknown,  ///< not known yet: a state that nothing has written
    kWhole,    ///< every rank has all of it
    kShared    ///< every rank has a part of `axis`
  };
  Kind kind = Kind::kWhole;
  int axis = 0;
  /// The axis of the whole value consists of these stretches, one after the other, of each of which a rank has its
  /// share: text and image tokens that were shared and then concatenated, say.
  Ints stretches = {};

  [[nodiscard]] bool is_shared() const { return kind == Kind::kShared; }
  friend bool operator==(const Sharing&, const Sharing&) = default;
};

/// A node that ranks cannot share; the text is the reason, for users.
class CannotShare : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// How a node computes a rank's share.
struct SharedNode {
  enum class Form {
    kAlike,      ///< the op on a rank's operands gives the rank's results
    kReduction,  ///< it gives a partial result, which the ranks combine
    kAttention   ///< queries must see keys and values of all ranks
  };
  Form form = Form::kAlike;
  std::vector<Sharing> operands;  ///< as the node needs them
  Sharing results = {};
};

/// The form of a node whose operands the ranks have so; kAlike with whole results if none is shared. `type` are those
/// of the whole operands and results. Throws CannotShare with the node's module.
[[nodiscard]] SharedNode share_node(const Node& node, const std::vector<Sharing>& operands,
                                    const std::vector<TensorType>& in, const TensorType& out);

/// The attributes of a node of form kAlike for a rank whose results have that shape.
[[nodiscard]] Attributes share_attributes(const Node& node, const SharedNode& shared, const Shape& result, int rank,
                                          int ranks);

}  // namespace headroom
