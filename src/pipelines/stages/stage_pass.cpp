#include "pipelines/stages/stage_pass.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"

namespace headroom {
namespace {

ForwardPass encode_text(const Pipeline& pipeline, const TextReader& reader, const Request& request) {
  const Component& encoder = pipeline.component(reader.encoder);
  const std::int64_t tokens = reader.tokens != 0 ? reader.tokens : request.text_tokens;
  return make_forward_pass(encoder, pass_named(*encoder.kind, reader.pass),
                           PassSize{.batch = 1, .text_tokens = tokens});
}

using Extent = std::int64_t Request::*;

/// A pass over one image of this many rows and columns of tokens.
ForwardPass code_image(const Pipeline::ImageCoder& coder, std::string_view stage, const Request& request, Extent rows,
                       Extent columns) {
  return {
      .component = coder.component,
      .request = {{"pass", stage}, {"batch", 1}, {"token_rows", request.*rows}, {"token_columns", request.*columns}},
      .size = {.token_rows = request.*rows, .token_columns = request.*columns},
      .build =
          [build = coder.build, request, rows, columns](const RequestSize& size) {
            Request other = request;
            other.*rows = size.token_rows;
            other.*columns = size.token_columns;
            return build(other);
          },
      .set_inputs = [component = coder.component](Session& session) { set_random_inputs(*component, session); },
      .overflows_f16 = coder.overflows_f16};
}

ForwardPass encode_image(const Pipeline::ImageCoder& coder, Request request) {
  if (request.reference_tokens() == 0) {
    request.reference_rows = request.token_rows;
    request.reference_columns = request.token_columns;
  }
  return code_image(coder, "encode", request, &Request::reference_rows, &Request::reference_columns);
}

}  // namespace

std::vector<std::string> stage_passes(const Pipeline& pipeline) {
  std::vector<std::string> stages;
  for (const TextReader& reader : pipeline.text_readers()) stages.push_back(reader.encoder);
  if (pipeline.image_use() != ImageUse::kNone && pipeline.encoder()) stages.emplace_back("encode");
  if (pipeline.decoder()) stages.emplace_back("decode");
  return stages;
}

ForwardPass stage_pass(const Pipeline& pipeline, std::string_view stage, const Request& request) {
  if (stage == "encode") return encode_image(pipeline.encoder().value(), request);
  if (stage == "decode")
    return code_image(pipeline.decoder().value(), stage, request, &Request::token_rows, &Request::token_columns);
  const auto reader = std::ranges::find(pipeline.text_readers(), stage, &TextReader::encoder);
  HR_CHECK(reader != pipeline.text_readers().end());
  return encode_text(pipeline, *reader, request);
}

}  // namespace headroom
