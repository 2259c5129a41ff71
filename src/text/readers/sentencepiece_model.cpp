#include "text/readers/sentencepiece_model.hpp"

#include <cmath>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/text/printable.hpp"
#include "base/text/utf8.hpp"
#include "text/readers/protobuf.hpp"

namespace headroom {
namespace {

// Field numbers and enumerators of sentencepiece_model.proto.
namespace proto {
constexpr unsigned kModelPieces = 1;
constexpr unsigned kModelTrainer = 2;
constexpr unsigned kModelNormalizer = 3;
constexpr unsigned kPieceText = 1;
constexpr unsigned kPieceScore = 2;
constexpr unsigned kTrainerModelType = 3;
constexpr unsigned kNormalizerCharsmap = 2;

constexpr std::uint64_t kUnigram = 1;
}  // namespace proto

UnigramPiece read_piece(std::string_view message, std::string_view context) {
  UnigramPiece piece;
  ProtobufReader reader(message, context);
  while (const auto field = reader.next()) {
    if (field->number == proto::kPieceText) piece.text = field->bytes;
    if (field->number == proto::kPieceScore) piece.score = field->as_float();
  }
  if (piece.text.empty()) fail("{} has an empty piece", context);
  if (!is_utf8(piece.text)) fail("{} has the piece '{}', which is not UTF-8", context, printable_name(piece.text));
  if (!std::isfinite(piece.score)) fail("{}: the score of '{}' is not finite", context, piece.text);
  return piece;
}

void check_type(std::string_view message, std::string_view context) {
  std::uint64_t type = proto::kUnigram;
  ProtobufReader reader(message, context);
  while (const auto field = reader.next())
    if (field->number == proto::kTrainerModelType) type = field->value;
  if (type != proto::kUnigram)
    fail("{} is a model of the type {}, but a Unigram model (1) was expected", context, type);
}

std::string read_charsmap(std::string_view message, std::string_view context) {
  std::string charsmap;
  ProtobufReader reader(message, context);
  while (const auto field = reader.next())
    if (field->number == proto::kNormalizerCharsmap) charsmap = field->bytes;
  return charsmap;
}

}  // namespace

SentencepieceModel read_sentencepiece_model(const std::filesystem::path& path) {
  const std::string content = read_file(path);
  const std::string& context = path.native();
  SentencepieceModel model;
  ProtobufReader reader(content, context);
  while (const auto field = reader.next()) {
    if (field->number == proto::kModelTrainer) check_type(field->bytes, context);
    if (field->number == proto::kModelNormalizer) model.charsmap = read_charsmap(field->bytes, context);
    if (field->number == proto::kModelPieces) model.pieces.push_back(read_piece(field->bytes, context));
  }
  if (model.pieces.empty()) fail("{} is no SentencePiece model: it has no pieces", context);
  return model;
}

}  // namespace headroom
