// Ops that move elements, interpolate between them, or create them without inputs.

#include <algorithm>

#include "differential/bound_parts.hpp"

namespace headroom::differential {
/// Results are operands, moved.
Errors moved_errors(const Site& site) { return {evaluate(site, site.op, site.attributes, operand_errors(site))}; }

/// Nothing is known if a row's index is uncertain.
Errors gathered_errors(const Site& site) {
  const bool is_known = std::ranges::all_of(site.operands[1]->error, [](double error) { return error == 0; });
  return is_known ? moved_errors(site)
                  : Errors{Field(static_cast<std::size_t>(site.results[0].type.shape.numel()), kInfinity)};
}

Errors padded_errors(const Site& site) {
  return {evaluate(site, site.op, site.attributes.with(attr::kValue, 0.0), operand_errors(site))};
}

/// Equal on every device: constants, and random values, whose keys are integers.
Errors no_errors(const Site& site) { return {Field(static_cast<std::size_t>(site.results[0].type.shape.numel()))}; }

Errors scattered_errors(const Site& site) {
  return with_roundings(site, static_cast<double>(site.operands[1]->error.size() + 2), gathered_errors(site));
}

/// Three interpolations of three operations each, with rounded weights.
Errors resized_errors(const Site& site) {
  return with_roundings(site, site.attributes[attr::kMode] == ResizeMode::kBilinear ? 12 : 0, moved_errors(site));
}

}  // namespace headroom::differential
