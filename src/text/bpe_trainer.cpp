#include "text/bpe_trainer.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text/utf8.hpp"
#include "text/byte_alphabet.hpp"
#include "text/unicode.hpp"

namespace headroom {
namespace {

using TokenPair = std::pair<TokenId, TokenId>;

struct PairHash {
  std::size_t operator()(const TokenPair& pair) const {
    return std::hash<std::uint64_t>()(static_cast<std::uint64_t>(pair.first) << 32U |
                                      static_cast<std::uint32_t>(pair.second));
  }
};

/// A word that is being joined.
struct CountedWord {
  std::vector<TokenId> tokens;
  std::int64_t count = 0;
};

/// How often a pair occurs, and in which words it did when it was counted.
struct PairUse {
  std::int64_t count = 0;
  std::vector<std::size_t> words;
};

/// A pair to be joined; outdated if its count has changed.
struct QueuedPair {
  std::int64_t count;
  TokenPair pair;

  /// For a queue whose top is the next pair.
  friend bool operator<(const QueuedPair& a, const QueuedPair& b) {
    return a.count != b.count ? a.count < b.count : a.pair > b.pair;
  }
};

class PairMerger {
 public:
  PairMerger(const std::map<std::string, std::int64_t, std::less<>>& counts, std::size_t size) {
    add_piece(std::string(kEndOfText));
    std::string bytes;
    for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
    std::vector<std::string> alphabet = characters_of(bytes_to_alphabet(bytes));
    std::ranges::sort(alphabet, {}, [](const std::string& text) { return first_character(text).code; });
    for (std::string& character : alphabet) add_piece(std::move(character));
    for (const auto& [word, count] : counts) add_word(word, count);
    for (const auto& [pair, use] : uses_) queue_.push({use.count, pair});
    merge(size);
  }

  [[nodiscard]] nlohmann::json vocabulary() const {
    nlohmann::json vocabulary = nlohmann::json::object();
    for (std::size_t id = 0; id < pieces_.size(); ++id) vocabulary[pieces_[id]] = id;
    return vocabulary;
  }
  [[nodiscard]] nlohmann::json merges() const { return merges_; }

 private:
  static std::vector<std::string> characters_of(std::string_view text) {
    std::vector<std::string> characters;
    while (!text.empty()) {
      const std::size_t bytes = first_character(text).bytes;
      characters.emplace_back(text.substr(0, bytes));
      text.remove_prefix(bytes);
    }
    return characters;
  }

  /// Its id; a piece that several pairs make is added once.
  TokenId add_piece(std::string piece) {
    const auto [entry, is_new] = ids_.emplace(piece, static_cast<TokenId>(pieces_.size()));
    if (is_new) pieces_.push_back(std::move(piece));
    return entry->second;
  }

  void add_word(std::string_view text, std::int64_t count) {
    CountedWord word{.tokens = {}, .count = count};
    for (const std::string& character : characters_of(text)) word.tokens.push_back(ids_.at(character));
    for (std::size_t i = 1; i < word.tokens.size(); ++i)
      change({word.tokens[i - 1], word.tokens[i]}, count, words_.size());
    words_.push_back(std::move(word));
  }

  void change(const TokenPair& pair, std::int64_t by, std::size_t word) {
    PairUse& use = uses_[pair];
    use.count += by;
    if (by > 0 && (use.words.empty() || use.words.back() != word)) use.words.push_back(word);
  }

  void merge(std::size_t size) {
    while (pieces_.size() < size && !queue_.empty()) {
      const QueuedPair top = queue_.top();
      queue_.pop();
      const std::int64_t count = uses_.at(top.pair).count;
      if (count != top.count) {
        if (count > 0) queue_.push({count, top.pair});
        continue;
      }
      const std::string &left = pieces_[static_cast<std::size_t>(top.pair.first)],
                        &right = pieces_[static_cast<std::size_t>(top.pair.second)];
      merges_.push_back({left, right});
      join(top.pair, add_piece(left + right));
    }
  }

  void join(const TokenPair& pair, TokenId joined) {
    const std::vector<std::size_t> words = std::exchange(uses_.at(pair).words, {});
    std::vector<TokenPair> grown;
    for (const std::size_t word : words) join_in(word, pair, joined, grown);
    uses_.at(pair).count = 0;
    std::ranges::sort(grown);
    grown.erase(std::ranges::unique(grown).begin(), grown.end());
    for (const TokenPair& each : grown)
      if (const std::int64_t count = uses_.at(each).count; count > 0) queue_.push({count, each});
  }

  /// Joins from left to right, and counts the pairs with the neighbours anew.
  void join_in(std::size_t index, const TokenPair& pair, TokenId joined, std::vector<TokenPair>& grown) {
    CountedWord& word = words_[index];
    const auto replace = [&](const TokenPair& before, const TokenPair& after) {
      change(before, -word.count, index);
      change(after, word.count, index);
      grown.push_back(after);
    };
    std::vector<TokenId> made;
    for (std::size_t i = 0; i < word.tokens.size(); ++i) {
      const bool is_pair =
          i + 1 < word.tokens.size() && word.tokens[i] == pair.first && word.tokens[i + 1] == pair.second;
      if (!is_pair) {
        made.push_back(word.tokens[i]);
        continue;
      }
      if (!made.empty()) replace({made.back(), pair.first}, {made.back(), joined});
      if (i + 2 < word.tokens.size()) replace({pair.second, word.tokens[i + 2]}, {joined, word.tokens[i + 2]});
      made.push_back(joined);
      ++i;
    }
    word.tokens = std::move(made);
  }

  std::vector<std::string> pieces_;  // by id
  std::unordered_map<std::string, TokenId> ids_;
  std::vector<CountedWord> words_;
  std::unordered_map<TokenPair, PairUse, PairHash> uses_;
  std::priority_queue<QueuedPair> queue_;
  nlohmann::json merges_ = nlohmann::json::array();
};

}  // namespace

void BpeTrainer::add(std::string_view text) {
  check_utf8(text);
  if (text.empty()) return;
  std::vector<Section> words = {{.text = std::string(text), .at_start = true}};
  TextBudget budget("GPT-2's words", text.size());
  words_->apply(words, budget);
  for (const Section& word : words) ++counts_[word.text];
}

nlohmann::json BpeTrainer::train(std::size_t size) const {
  HR_CHECK(size >= static_cast<std::size_t>(kBpeBaseTokens));
  const PairMerger merged(counts_, size);
  const auto byte_level_step = [](bool adds_prefix_space) {
    return nlohmann::json{
        {"type", "ByteLevel"}, {"add_prefix_space", adds_prefix_space}, {"trim_offsets", true}, {"use_regex", true}};
  };
  const nlohmann::json end = {{"id", 0},         {"content", kEndOfText}, {"single_word", false}, {"lstrip", false},
                              {"rstrip", false}, {"normalized", false},   {"special", true}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", {end}},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level_step(false)},
          {"post_processor", nullptr},
          {"decoder", byte_level_step(true)},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", merged.vocabulary()},
            {"merges", merged.merges()}}}};
}

}  // namespace headroom
