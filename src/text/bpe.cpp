#include "text/bpe.hpp"

#include <queue>

#include "base/error.hpp"
#include "base/text/utf8.hpp"

namespace headroom {
namespace {

constexpr std::int32_t kNone = -1;

std::uint64_t key_of(TokenId left, TokenId right) {
  return static_cast<std::uint64_t>(left) << 32U | static_cast<std::uint32_t>(right);
}

std::size_t characters_in(std::string_view text) {
  std::size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(first_character(text).bytes);
  return count;
}

}  // namespace

/// A node of the linked list that represents a word during merging.
struct Bpe::Symbol {
  TokenId id;  // kNone if merged into the symbol before it
  std::int32_t previous;
  std::int32_t next;
};

/// Two adjacent symbols that a rule joins. Outdated if one of them has changed since.
struct Bpe::Candidate {
  Rule rule;
  std::int32_t left;

  /// For a queue whose top is the next candidate to be joined.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return a.rule.rank != b.rule.rank ? a.rule.rank > b.rule.rank : a.left > b.left;
  }
};

Bpe::Bpe(const Vocabulary& vocabulary, std::span<const Merge> merges, BpeOptions options, std::string_view context)
    : options_(std::move(options)) {
  const auto characters = [&](std::string_view piece) {
    return characters_in(piece) - (piece.ends_with(options_.end_of_word) ? characters_in(options_.end_of_word) : 0);
  };
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    if (!vocabulary.has(id)) continue;
    const std::string& piece = vocabulary.piece(id);
    if (characters(piece) == 1 || characters_in(piece) == 1) initial_.emplace(piece, id);
    if (options_.whole_words_first) words_.emplace(piece, id);
  }
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const auto& [left, right] = merges[i];
    const std::string at = fmt::format("{}: the merge {} of '{}' and '{}'", context, i, left, right);
    const Rule rule{.rank = static_cast<std::int32_t>(i), .merged = vocabulary.get(left + right, at)};
    rules_.insert_or_assign(key_of(vocabulary.get(left, at), vocabulary.get(right, at)), rule);
  }
}

const Bpe::Rule* Bpe::find_rule(TokenId left, TokenId right) const {
  const auto found = rules_.find(key_of(left, right));
  return found == rules_.end() ? nullptr : &found->second;
}

std::vector<Bpe::Symbol> Bpe::symbols_of(std::string_view word) const {
  std::vector<Symbol> symbols;
  bool after_unknown = false;
  while (!word.empty()) {
    const std::size_t bytes = first_character(word).bytes;
    std::string character(word.substr(0, bytes));
    word.remove_prefix(bytes);
    if (word.empty()) character += options_.end_of_word;
    const auto found = initial_.find(character);
    const bool is_unknown = found == initial_.end();
    if (!is_unknown || (options_.unknown && !(after_unknown && options_.fuse_unknown))) {
      const auto index = static_cast<std::int32_t>(symbols.size());
      symbols.push_back({is_unknown ? *options_.unknown : found->second, index - 1, index + 1});
    }
    after_unknown = is_unknown;
  }
  if (!symbols.empty()) symbols.back().next = kNone;
  return symbols;
}

void Bpe::merge(std::vector<Symbol>& symbols) const {
  const auto at = [&](std::int32_t index) -> Symbol& { return symbols[static_cast<std::size_t>(index)]; };
  std::priority_queue<Candidate> queue;
  const auto consider = [&](std::int32_t left) {
    if (left == kNone || at(left).next == kNone) return;
    if (const Rule* rule = find_rule(at(left).id, at(at(left).next).id)) queue.push({*rule, left});
  };
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(symbols.size()); ++i) consider(i);
  while (!queue.empty()) {
    const auto [rule, index] = queue.top();
    queue.pop();
    Symbol& left = at(index);
    if (left.id == kNone || left.next == kNone) continue;
    Symbol& right = at(left.next);
    const Rule* const current = find_rule(left.id, right.id);
    if (current == nullptr || current->merged != rule.merged) continue;
    left.id = rule.merged;
    left.next = right.next;
    right.id = kNone;
    if (left.next != kNone) at(left.next).previous = index;
    consider(left.previous);
    consider(index);
  }
}

void Bpe::encode(std::string_view word, std::vector<TokenId>& ids) const {
  if (options_.whole_words_first) {
    if (const auto found = words_.find(std::string(word)); found != words_.end()) {
      ids.push_back(found->second);
      return;
    }
  }
  std::vector<Symbol> symbols = symbols_of(word);
  merge(symbols);
  for (const Symbol& symbol : symbols)
    if (symbol.id != kNone) ids.push_back(symbol.id);
}

}  // namespace headroom
