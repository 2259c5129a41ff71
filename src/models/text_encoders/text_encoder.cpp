#include "models/text_encoders/text_encoder.hpp"

#include <numeric>
#include <vector>

#include "base/error.hpp"

namespace headroom::text_encoder {

InputShapes id_shapes(const PassSize& size, std::int64_t most) {
  if (size.text_tokens < 1 || size.text_tokens > most)
    fail_usage("--text-tokens is {}, expected 1 to {}", size.text_tokens, most);
  return {{"input_ids", {size.batch, size.text_tokens}}};
}

ValueId add_ids(Graph& graph, const InputShapes& given, std::int64_t most) {
  const Shape& shape = require_shape(given, "input_ids", {{"batch"}, {"tokens"}});
  if (shape[1] > most) fail("'input_ids' is {}, expected at most {} tokens", shape, most);
  return graph.add_input("input_ids", TensorType{.dtype = DType::kI32, .shape = shape});
}

/// Compared rather than listed, as the list grows with the square of the tokens.
ValueId causal_bias(Builder& builder, std::int64_t tokens, DType dtype) {
  std::vector<double> places(static_cast<std::size_t>(tokens));
  std::iota(places.begin(), places.end(), 0.0);
  const ValueId keys = builder.constant(places, {tokens}), queries = builder.constant(places, {tokens, 1});
  return builder.where(builder.less_equal(keys, queries), builder.constant({0}, {}, dtype),
                       builder.constant({kUnseen}, {}, dtype));
}

}  // namespace headroom::text_encoder
