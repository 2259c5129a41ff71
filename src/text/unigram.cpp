#include "text/unigram.hpp"

#include <algorithm>
#include <limits>
#include <ranges>
#include <utility>

#include "base/error.hpp"
#include "base/text/utf8.hpp"
#include "text/regex.hpp"

namespace headroom {
namespace {

constexpr double kUnknownPenalty = 10;  // below the least likely piece
constexpr TokenId kUnknown = -1;

PieceTrie trie_of(const std::vector<UnigramPiece>& pieces) {
  std::vector<PieceTrie::Entry> entries;
  for (std::size_t id = 0; id < pieces.size(); ++id) entries.push_back({pieces[id].text, static_cast<TokenId>(id)});
  return PieceTrie(std::move(entries));
}

}  // namespace

/// The last step of the best path to a position.
struct Unigram::Step {
  TokenId id = kUnknown;
  double score = 0;  // of the whole path
  std::size_t begin = std::string_view::npos;
};

Unigram::Unigram(const std::vector<UnigramPiece>& pieces, UnigramOptions options, std::string_view context)
    : trie_(trie_of(pieces)), options_(options), context_(context) {
  double lowest = std::numeric_limits<float>::max();
  for (const UnigramPiece& piece : pieces) {
    check_searched_length(piece.text, context);
    scores_.push_back(piece.score);
    lowest = std::min(lowest, piece.score);
  }
  unknown_score_ = lowest - kUnknownPenalty;
  if (options_.unknown && static_cast<std::size_t>(*options_.unknown) >= pieces.size())
    fail("{}: the id {} of the unknown token is beyond the {} pieces", context, *options_.unknown, pieces.size());
  for (unsigned byte = 0; options_.byte_fallback && byte < 256; ++byte) {
    const auto found = std::ranges::find(pieces, fmt::format("<0x{:02X}>", byte), &UnigramPiece::text);
    if (found == pieces.end()) fail("{}: bytes are to fall back to pieces, but <0x{:02X}> is not there", context, byte);
    byte_ids_[byte] = static_cast<TokenId>(found - pieces.begin());
  }
}

/// For each end of a character, the step of the best path that ends there.
std::vector<Unigram::Step> Unigram::best_steps(std::string_view word) const {
  std::vector<Step> steps(word.size() + 1);
  const auto offer = [&](std::size_t begin, std::size_t end, TokenId id, double score) {
    Step& step = steps[end];
    if (step.begin == std::string_view::npos || score > step.score) step = {id, score, begin};
  };
  for (std::size_t begin = 0; begin < word.size();) {
    const std::size_t character = first_character(word.substr(begin)).bytes;
    const double so_far = steps[begin].score;
    bool is_known = false;
    trie_.visit_prefixes(word.substr(begin), [&](std::size_t bytes, TokenId id) {
      offer(begin, begin + bytes, id, scores_[static_cast<std::size_t>(id)] + so_far);
      is_known = is_known || bytes == character;
    });
    if (!is_known) offer(begin, begin + character, kUnknown, unknown_score_ + so_far);
    begin += character;
  }
  return steps;
}

void Unigram::append_unknown(std::string_view characters, std::vector<TokenId>& ids) const {
  if (options_.byte_fallback) {
    for (const char byte : characters) ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
  } else if (options_.unknown) {
    ids.push_back(*options_.unknown);
  } else {
    fail("{}: '{}' is not in the vocabulary, which has no unknown token", context_, characters);
  }
}

void Unigram::encode(std::string_view word, std::vector<TokenId>& ids) const {
  const std::vector<Step> steps = best_steps(word);
  // Consecutive unknown characters, including a literal unknown token in the text, become one token.
  struct Found {
    TokenId id;
    Span span;
  };
  std::vector<Found> backwards;
  for (std::size_t end = word.size(); end > 0; end = steps[end].begin) {
    const Step& step = steps[end];
    const TokenId id = step.id == options_.unknown ? kUnknown : step.id;
    if (id == kUnknown && !backwards.empty() && backwards.back().id == kUnknown)
      backwards.back().span.begin = step.begin;
    else
      backwards.push_back({id, {.begin = step.begin, .end = end}});
  }
  for (const auto& [id, span] : backwards | std::views::reverse)
    id == kUnknown ? append_unknown(span.of(word), ids) : ids.push_back(id);
}

}  // namespace headroom
