#include "ir/test_cases/op_cases.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "ir/op_definition.hpp"

namespace headroom {

std::string_view name_of(Special special) {
  if (special == Special::kNaN) return "NaN";
  return special == Special::kInfinities ? "infinities" : "a row of zeros";
}

OpCase& CaseList::add(std::string name, OpSpec spec) {
  const Tolerance tolerance = spec.outputs.empty() ? kExactly : default_tolerance(spec.outputs[0].dtype);
  return cases_.emplace_back(OpCase{.name = std::move(name), .spec = std::move(spec), .tolerance = tolerance});
}

OpCase& CaseList::add(std::string name, std::vector<TensorType> inputs, NamedAttributes attributes,
                      std::vector<bool> is_weight) {
  return add(std::move(name), make_spec(op_, std::move(inputs), std::move(attributes), std::move(is_weight)));
}

std::vector<OpCase> small_cases(Op op, CaseTypes types) {
  const OpDefinition& known = definition_of(op);
  CaseList list(op, types);
  if (is_float(types.data) || known.takes_integers) known.cases(list);
  return list.take();
}

std::vector<OpCase> all_small_cases(CaseTypes types) {
  std::vector<OpCase> all;
  for (const OpSchema& schema : all_ops()) std::ranges::move(small_cases(schema.op, types), std::back_inserter(all));
  return all;
}

std::vector<OpCase> benchmark_cases(Op op) {
  CaseList list(op, {});
  if (const auto add = definition_of(op).benchmarks) add(list);
  return list.take();
}

TensorType large_tokens(DType dtype) { return {dtype, {1, large_rows(size_of(dtype)), kLargeWidth}}; }

}  // namespace headroom
