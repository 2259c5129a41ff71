#include "pipelines/stages/gguf_tokenizer.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "io/gguf.hpp"
#include "text/readers/gguf_vocabulary.hpp"

namespace headroom {
namespace {

constexpr std::string_view kModel = "tokenizer.ggml.model";
constexpr std::size_t kMostElements = 2'000'000;  // tokens or merges; published ones have up to 262,144

class Metadata {
 public:
  Metadata(const GgufHeader& header, const std::string& context) : header_(header), context_(context) {}

  [[nodiscard]] std::string_view text(std::string_view key) const {
    const GgufValue* const value = header_.find_metadata(key);
    return value == nullptr ? std::string_view() : take(value->text(), key, "a text");
  }
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view key) const {
    const GgufValue* const value = header_.find_metadata(key);
    return value == nullptr ? std::nullopt : std::optional(take(value->integer(), key, "an integer"));
  }
  [[nodiscard]] std::vector<std::string_view> texts(std::string_view key) const {
    return array<std::string_view>(key, "texts", [](const GgufValue& value) { return value.text(); });
  }
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view key) const {
    return array<std::int64_t>(key, "integers", [](const GgufValue& value) { return value.integer(); });
  }
  [[nodiscard]] std::vector<double> numbers(std::string_view key) const {
    return array<double>(key, "numbers", [](const GgufValue& value) { return value.number(); });
  }

 private:
  template <typename T>
  [[nodiscard]] T take(const std::optional<T>& value, std::string_view key, std::string_view expected) const {
    if (!value) fail("{}: {} is not {}", context_, key, expected);
    return *value;
  }
  /// Empty without the key.
  template <typename T, typename Get>
  [[nodiscard]] std::vector<T> array(std::string_view key, std::string_view expected, const Get& get) const {
    const GgufValue* const value = header_.find_metadata(key);
    if (value == nullptr) return {};
    if (value->type() != GgufType::kArray) fail("{}: {} is not an array", context_, key);
    if (value->count() > kMostElements)
      fail("{}: {} has {} elements, but at most {} are read", context_, key, value->count(), kMostElements);
    std::vector<T> result;
    for (const GgufValue& element : value->elements(kMostElements))
      result.push_back(take(get(element), key, fmt::format("an array of {}", expected)));
    return result;
  }

  const GgufHeader& header_;
  const std::string& context_;
};

}  // namespace

bool has_gguf_tokenizer(const std::filesystem::path& file) {
  if (!is_there(file) || is_folder(file) || !is_gguf(MappedFile(file).bytes())) return false;
  return GgufFile::open(file).header().find_metadata(kModel) != nullptr;
}

Tokenizer open_gguf_tokenizer(const std::filesystem::path& file) {
  const std::string& context = file.native();
  if (!has_gguf_tokenizer(file)) fail("{} holds no tokenizer: it is not a GGUF file with {}", context, kModel);
  const GgufFile opened = GgufFile::open(file);
  const Metadata metadata(opened.header(), context);
  GgufVocabulary stored{.model = metadata.text(kModel),
                        .pre = metadata.text("tokenizer.ggml.pre"),
                        .tokens = metadata.texts("tokenizer.ggml.tokens"),
                        .types = metadata.integers("tokenizer.ggml.token_type"),
                        .scores = metadata.numbers("tokenizer.ggml.scores"),
                        .merges = metadata.texts("tokenizer.ggml.merges"),
                        .charsmap = {},
                        .end = metadata.integer("tokenizer.ggml.eos_token_id"),
                        .padding = metadata.integer("tokenizer.ggml.padding_token_id")};
  for (const std::int64_t byte : metadata.integers("tokenizer.ggml.precompiled_charsmap"))
    stored.charsmap += static_cast<char>(byte);
  return make_tokenizer(stored, context);
}

}  // namespace headroom
