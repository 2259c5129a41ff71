#include "pipelines/stages/text_reader.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace headroom {

HostTensor TextReader::tokenize(std::string_view text, std::int64_t most) const {
  const EncodedText encoded = tokenizer.encode(before + std::string(text) + after,
                                               {.max_length = static_cast<std::size_t>(dropped_tokens + most),
                                                .padding = pads ? Padding::kToMaxLength : Padding::kNone});
  HostTensor ids(DType::kI32, Shape{1, std::ssize(encoded.ids)});
  std::ranges::copy(encoded.ids, ids.as<std::int32_t>().begin());
  return ids;
}

std::int64_t TextReader::count_tokens(std::string_view text) const {
  return std::ssize(tokenizer.encode(before + std::string(text) + after).ids) - dropped_tokens;
}

void require_vocabulary(const Tokenizer& tokenizer, const std::filesystem::path& folder, const Component& encoder) {
  HR_CHECK(encoder.kind->range != nullptr);
  const auto rows = static_cast<std::int64_t>(encoder.kind->range(encoder.config, "input_ids")->high);
  if (tokenizer.vocabulary_size() > rows)
    fail("{} has {} ids, but the {} of {} embeds {}: the tokenizer is another model's", folder.string(),
         tokenizer.vocabulary_size(), encoder.kind->name, encoder.name, rows);
}

}  // namespace headroom
