#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plan/program.hpp"

namespace headroom {

/// The expression over params and constants that computes a weight value, as text: "cast(x.weight){dtype=f32}". Equal
/// keys mean equal values, in any graph over the same checkpoint. `producers` is find_producers(graph).
[[nodiscard]] std::string weight_key(const Graph& graph, const std::vector<int>& producers, ValueId value);

/// The subgraph that computes `values`, which are weights, as a separate graph. Params become inputs of the same
/// names; its outputs are "0", "1", ... in the order of `values`. Shared subexpressions occur once.
[[nodiscard]] Graph weight_graph(const Graph& graph, std::span<const ValueId> values);

/// Assigns storages to the weights that a program reads: one per key and form.
class WeightUses {
 public:
  /// `program` must be a program of `graph` and outlive this object.
  WeightUses(Program& program, const Graph& graph) : program_(program), producers_(find_producers(graph)) {}

  /// The place of a weight in dense form.
  [[nodiscard]] Place place(ValueId weight) { return place_of(dense(weight)); }
  /// The place of a weight as operand `input` of a kernel: packed, if the kernel asks for that.
  [[nodiscard]] Place place(ValueId weight, const std::shared_ptr<const PreparedKernel>& prepared, std::size_t input);

 private:
  [[nodiscard]] WeightUse dense(ValueId weight);
  [[nodiscard]] Place place_of(WeightUse use);

  Program& program_;
  std::vector<int> producers_;
  std::map<std::pair<std::string, std::string>, int> storages_;  // by key and layout
  std::map<ValueId, std::string> keys_;
};

}  // namespace headroom
