#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace headroom {

/// An id is a row of a text encoder's embedding.
using TokenId = std::int32_t;

/// The pieces of a tokenizer by id, and ids by piece. Ids may have gaps.
class Vocabulary {
 public:
  /// Throws Error, with `context`, if the id or the piece is already used.
  void add(std::string_view piece, TokenId id, std::string_view context);

  [[nodiscard]] std::optional<TokenId> find(std::string_view piece) const;
  /// The same; throws Error if there is no such piece.
  [[nodiscard]] TokenId get(std::string_view piece, std::string_view context) const;
  [[nodiscard]] bool has(TokenId id) const {
    return id >= 0 && id < size() && !pieces_[static_cast<std::size_t>(id)].empty();
  }
  /// Throws Error if no piece has the id.
  [[nodiscard]] const std::string& piece(TokenId id) const;
  /// The highest id plus one.
  [[nodiscard]] TokenId size() const { return static_cast<TokenId>(pieces_.size()); }

 private:
  std::vector<std::string> pieces_;  // by id; empty for unused ids
  std::unordered_map<std::string, TokenId> ids_;
};

}  // namespace headroom
