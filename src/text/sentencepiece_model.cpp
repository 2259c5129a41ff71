#include "text/sentencepiece_model.hpp"

#include <cmath>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "text/protobuf.hpp"

namespace headroom {
namespace {

// Field numbers and enumerators of sentencepiece_model.proto.
namespace proto {
constexpr unsigned kModelPieces = 1;
constexpr unsigned kModelTrainer = 2;
constexpr unsigned kModelNormalizer = 3;
constexpr unsigned kPieceText = 1;
constexpr unsigned kPieceScore = 2;
constexpr unsigned kPieceType = 3;
constexpr unsigned kTrainerModelType = 3;
constexpr unsigned kTrainerWhitespaceAsSuffix = 24;
constexpr unsigned kTrainerByteFallback = 35;
constexpr unsigned kNormalizerCharsmap = 2;
constexpr unsigned kNormalizerDummyPrefix = 3;
constexpr unsigned kNormalizerExtraWhitespaces = 4;
constexpr unsigned kNormalizerEscape = 5;

constexpr std::uint64_t kUnigram = 1;
enum PieceType : std::uint64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
}  // namespace proto

struct Piece {
  UnigramPiece piece;
  std::uint64_t type = proto::kNormal;
};

Piece read_piece(std::string_view message, std::string_view context) {
  Piece result;
  ProtobufReader reader(message, context);
  while (const auto field = reader.next()) {
    if (field->number == proto::kPieceText) result.piece.text = field->bytes;
    if (field->number == proto::kPieceScore) result.piece.score = field->as_float();
    if (field->number == proto::kPieceType) result.type = field->value;
  }
  if (result.piece.text.empty()) fail("{} has an empty piece", context);
  if (!std::isfinite(result.piece.score)) fail("{}: the score of '{}' is not finite", context, result.piece.text);
  result.piece.is_normal = result.type == proto::kNormal;
  result.piece.is_user_defined = result.type == proto::kUserDefined;
  return result;
}

void read_trainer(std::string_view message, std::string_view context, SentencepieceModel& model) {
  std::uint64_t type = proto::kUnigram;
  ProtobufReader reader(message, context);
  while (const auto field = reader.next()) {
    if (field->number == proto::kTrainerModelType) type = field->value;
    if (field->number == proto::kTrainerWhitespaceAsSuffix) model.rules.whitespace_as_suffix = field->value != 0;
    if (field->number == proto::kTrainerByteFallback) model.options.byte_fallback = field->value != 0;
  }
  if (type != proto::kUnigram)
    fail("{} is a model of the type {}, but a Unigram model (1) was expected", context, type);
}

void read_normalizer(std::string_view message, std::string_view context, SentencepieceRules& rules) {
  ProtobufReader reader(message, context);
  while (const auto field = reader.next()) {
    if (field->number == proto::kNormalizerCharsmap) rules.charsmap = field->bytes;
    if (field->number == proto::kNormalizerDummyPrefix) rules.add_dummy_prefix = field->value != 0;
    if (field->number == proto::kNormalizerExtraWhitespaces) rules.remove_extra_whitespaces = field->value != 0;
    if (field->number == proto::kNormalizerEscape) rules.escape_whitespaces = field->value != 0;
  }
}

}  // namespace

SentencepieceModel read_sentencepiece_model(const std::filesystem::path& path) {
  const std::string content = read_file(path);
  const std::string& context = path.native();
  SentencepieceModel model;
  ProtobufReader reader(content, context);
  while (const auto field = reader.next()) {
    if (field->number == proto::kModelTrainer) read_trainer(field->bytes, context, model);
    if (field->number == proto::kModelNormalizer) read_normalizer(field->bytes, context, model.rules);
    if (field->number != proto::kModelPieces) continue;
    Piece piece = read_piece(field->bytes, context);
    if (piece.type == proto::kUnknown) model.options.unknown = static_cast<TokenId>(model.pieces.size());
    model.pieces.push_back(std::move(piece.piece));
  }
  if (!model.options.unknown) fail("{} is no SentencePiece model: it has no unknown piece", context);
  model.options.single_precision = true;
  return model;
}

}  // namespace headroom
