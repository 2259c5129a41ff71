#include "models/text_encoders/text_encoder.hpp"

#include <utility>
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

ValueId causal_bias(Builder& builder, std::int64_t tokens, DType dtype) {
  std::vector<double> bias;
  for (std::int64_t query = 0; query < tokens; ++query)
    for (std::int64_t key = 0; key < tokens; ++key) bias.push_back(key <= query ? 0 : kUnseen);
  return builder.constant(std::move(bias), {tokens, tokens}, dtype);
}

}  // namespace headroom::text_encoder
