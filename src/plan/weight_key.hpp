#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plan/program.hpp"

namespace headroom {

/// The expression over params and constants that a weight value stands for, as text: "cast(x.weight){dtype=f32}". Equal keys mean
/// equal values, in any graph over the same checkpoint. `producers` is find_producers(graph).
[[nodiscard]] std::string weight_key(const Graph& graph, const std::vector<int>& producers, ValueId value);

/// The subgraph that makes weights, as a graph of its own: params become inputs of the same names; its outputs are "0",
/// "1", ... in the order of `values`. What several of them need is in it once.
[[nodiscard]] Graph weight_graph(const Graph& graph, std::span<const ValueId> values);

/// Gives the weights that a program reads their storages: one for each key and form.
class WeightUses {
 public:
  /// `program`, which must outlive it, is one of `graph`.
  WeightUses(Program& program, const Graph& graph) : program_(program), producers_(find_producers(graph)) {}

  /// Where a weight lies, dense.
  [[nodiscard]] Place place(ValueId weight) { return place_of(dense(weight)); }
  /// Where a kernel reads it as its operand `input`: packed, if that is what the kernel asks for.
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
