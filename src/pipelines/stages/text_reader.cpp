#include "pipelines/stages/text_reader.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/tensors/divide_up.hpp"
#include "text/unicode.hpp"

namespace headroom {

HostTensor TextReader::tokenize(std::string_view text, std::int64_t most) const {
  check_utf8(text);  // without the template, which would shift the place that the error names
  if (pad_multiple != 0)
    most = std::min(
        most, std::max(round_up(count_tokens(text) + dropped_tokens, pad_multiple) - dropped_tokens, std::int64_t{1}));
  const bool fills = pads || pad_multiple != 0;
  const EncodedText encoded = tokenizer.encode(before + std::string(text) + after,
                                               {.max_length = static_cast<std::size_t>(dropped_tokens + most),
                                                .padding = fills ? Padding::kToMaxLength : Padding::kNone});
  HostTensor ids(DType::kI32, Shape{1, std::ssize(encoded.ids)});
  std::ranges::copy(encoded.ids, ids.as<std::int32_t>().begin());
  return ids;
}

std::int64_t TextReader::count_tokens(std::string_view text) const {
  check_utf8(text);
  return std::ssize(tokenizer.encode(before + std::string(text) + after).ids) - dropped_tokens;
}

std::int64_t TextReader::encoder_ids(std::int64_t ids) const {
  return pads || pad_multiple != 0 ? ids : round_up(ids, kTextStep);
}

void require_vocabulary(const Tokenizer& tokenizer, const std::filesystem::path& place, const Component& encoder) {
  HR_CHECK(encoder.kind->range != nullptr);
  const auto rows = static_cast<std::int64_t>(encoder.kind->range(encoder.config, "input_ids")->high);
  if (tokenizer.vocabulary_size() > rows)
    fail("{} has {} ids, but the {} of {} embeds {}: the tokenizer is another model's", place.string(),
         tokenizer.vocabulary_size(), encoder.kind->name, encoder.name, rows);
}

}  // namespace headroom
