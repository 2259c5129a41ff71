#include "pipelines/stages/stage_pass.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"

namespace headroom {
namespace {

ForwardPass encode_text(const Pipeline& pipeline, const TextReader& reader, const Request& request) {
  const Component& encoder = pipeline.component(reader.encoder);
  const std::int64_t tokens = reader.tokens != 0         ? reader.tokens
                              : reader.pad_multiple != 0 ? request.longest_text()
                                                         : request.text_tokens;
  return make_forward_pass(encoder, pass_named(*encoder.kind, reader.pass),
                           PassSize{.batch = 1, .text_tokens = tokens});
}

/// A pass over one image of that size.
ForwardPass code_image(const Pipeline::ImageCoder& coder, std::string_view stage, const Request& request,
                       const TokenSize& image) {
  return {.component = coder.component,
          .request = {{"pass", stage}, {"batch", 1}, {"token_rows", image.rows}, {"token_columns", image.columns}},
          .size = {.token_rows = image.rows, .token_columns = image.columns},
          .build =
              [build = coder.build, request](const RequestSize& size) {
                return build(request, {size.token_rows, size.token_columns});
              },
          .set_inputs = [component = coder.component](Session& session) { set_random_inputs(*component, session); },
          .overflows_f16 = coder.overflows_f16};
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
  const TokenSize made{request.token_rows, request.token_columns};
  if (stage == "encode")
    return code_image(pipeline.encoder().value(), stage, request,
                      request.references.empty() ? made : request.references.front());
  if (stage == "decode") return code_image(pipeline.decoder().value(), stage, request, made);
  const auto reader = std::ranges::find(pipeline.text_readers(), stage, &TextReader::encoder);
  HR_CHECK(reader != pipeline.text_readers().end());
  return encode_text(pipeline, *reader, request);
}

}  // namespace headroom
