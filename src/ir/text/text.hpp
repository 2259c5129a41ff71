#pragma once

#include <string>
#include <string_view>

#include "ir/graph.hpp"

namespace headroom {

/// The graph as text, which parse_graph() reads back to an equal graph. One line per declaration or node:
///
///     graph toy {
///       input %x: f32[2, 4]
///       param %fc.weight: bf16[8, 4]
///       state %latents: f32[2, 8]
///       block fc
///       %3: f32[8, 4] = cast(%fc.weight) {dtype = f32} @ fc
///       loop 28 %step {
///         %4: f32[2, 8] = linear(%x, %3) {epilogue = sum, tf32 = 0} @ fc
///         next %latents = %4
///         yield %5: f32[2, 8] = %4
///       }
///       if %hit {
///         %6: f32[2, 8] = relu(%5)
///         yield %8: f32[2, 8] = %6
///       } else {
///         %7: f32[2, 8] = silu(%5)
///         yield %8 = %7
///       }
///       output sample = %8
///     }
///
/// The body of a fused op is printed in braces: `fused(%x) {body = graph g { ... }}`. It has a numbering of its own.
/// Results are numbered by their ValueId. Names that are not [A-Za-z0-9_.] are quoted: %"odd name". An `if` without
/// else gives for each result the value to use if the branch does not run: `yield %8: f32[2, 8] = %6 else %5`. After
/// the region that updates a state, reads of the state refer to that region's result: %latents to %5, or to a new one.
[[nodiscard]] std::string print(const Graph& graph);

/// Reads what print() writes, renumbering values in order of appearance. Throws Error with line and column.
[[nodiscard]] Graph parse_graph(std::string_view text);

/// print() with results renumbered in order of appearance, so that two graphs are equal if their canonical texts are.
[[nodiscard]] std::string canonical_text(const Graph& graph);
/// The value of an attribute without quotes: 0.5, [1, 2], bf16, gelu_tanh; a flag is 0 or 1.
[[nodiscard]] std::string to_text(const Attribute& value);

}  // namespace headroom
