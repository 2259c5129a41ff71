#include "text/vocabulary.hpp"

#include "base/error.hpp"

namespace headroom {

void Vocabulary::add(std::string_view piece, TokenId id, std::string_view context) {
  HR_CHECK(id >= 0);
  if (piece.empty()) fail("{}: the piece with the id {} is empty", context, id);
  const auto index = static_cast<std::size_t>(id);
  if (index >= pieces_.size()) pieces_.resize(index + 1);
  if (!pieces_[index].empty()) fail("{}: '{}' and '{}' have the same id {}", context, pieces_[index], piece, id);
  const auto [other, is_new] = ids_.emplace(piece, id);
  if (!is_new) fail("{}: '{}' has two ids, {} and {}", context, piece, other->second, id);
  pieces_[index] = piece;
}

std::optional<TokenId> Vocabulary::find(std::string_view piece) const {
  const auto found = ids_.find(std::string(piece));
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

TokenId Vocabulary::get(std::string_view piece, std::string_view context) const {
  const std::optional<TokenId> id = find(piece);
  if (!id) fail("{}: '{}' is not in the vocabulary", context, piece);
  return *id;
}

const std::string& Vocabulary::piece(TokenId id) const {
  if (!has(id)) fail("no piece has the id {}; the vocabulary ends at {}", id, size() - 1);
  return pieces_[static_cast<std::size_t>(id)];
}

}  // namespace headroom
