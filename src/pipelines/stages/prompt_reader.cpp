#include "pipelines/stages/prompt_reader.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace headroom {
namespace {

std::size_t bytes_of(const Conditioning::Text& text) {
  std::size_t bytes = 0;
  for (const Conditioning::Part& part : text) bytes += part->memory.bytes();
  return bytes;
}

}  // namespace

PromptReader::PromptReader(const Pipeline& pipeline, std::int64_t text_tokens, SwitchSet switches, DeviceTarget target,
                           std::span<const std::int64_t> expected)
    : pipeline_(pipeline), switches_(std::move(switches)), target_(std::move(target)) {
  for (const TextReader& reader : pipeline.text_readers()) {
    const std::int64_t tokens = reader.tokens != 0 ? reader.tokens : text_tokens;
    const std::int64_t longest = expected.empty() ? tokens : std::ranges::max(expected);
    const std::int64_t ids = reader.encoder_ids(reader.pads ? tokens : reader.dropped_tokens + longest);
    Desk& desk = desks_.emplace_back(Desk{.reader = &reader, .tokens = tokens, .expected = longest});
    desk.stages.push_back({.ids = ids, .stage = compile_encoder(reader, ids)});
  }
}

DeviceStage PromptReader::compile_encoder(const TextReader& reader, std::int64_t ids) const {
  const Component& encoder = pipeline_.component(reader.encoder);
  Graph graph =
      encoder.build(pass_named(*encoder.kind, reader.pass), {{"input_ids", Shape{1, ids}}, {kTextTokens, Shape{1}}});
  return compile_stage(reader.encoder, encoder, std::move(graph), switches_, target_);
}

PromptReader::~PromptReader() {
  if (offloader_ == nullptr) return;
  offloader_->remove_spare(this);
  for (const DeviceStage* stage : stages()) offloader_->forget(*stage);
}

void PromptReader::load(const std::shared_ptr<Offloader>& offloader) {
  offloader_ = offloader;
  offloader_->add_spare(this, [this] { forget(); });
  for (Desk& desk : desks_)
    for (SizedStage& sized : desk.stages) offloader_->load(sized.stage);
}

std::vector<const DeviceStage*> PromptReader::stages() const {
  std::vector<const DeviceStage*> stages;
  for (const Desk& desk : desks_)
    for (const SizedStage& sized : desk.stages) stages.push_back(&sized.stage);
  return stages;
}

void PromptReader::forget() {
  for (Desk& desk : desks_) desk.kept.clear();
}

std::size_t PromptReader::reading_bytes() const {
  std::size_t bytes = 0;
  for (const Desk& desk : desks_) bytes += desk.reading_bytes(desk.expected);
  return bytes;
}

/// Of a text of this many tokens.
std::size_t PromptReader::Desk::reading_bytes(std::int64_t text_tokens) const {
  const Graph& graph = stages.front().stage.compiled.program->graph;
  std::size_t bytes = 0;
  for (const TextReading& reading : reader->readings)
    bytes += graph.type(std::ranges::find(graph.outputs(), reading.output, &Output::name)->value).bytes();
  if (reader->pads) return bytes;
  return bytes / static_cast<std::size_t>(stages.front().ids) * static_cast<std::size_t>(text_tokens);
}

/// The ids of a text; empty if zeros are used instead.
HostTensor PromptReader::Desk::ids_of(const Text& text) const {
  return text ? reader->tokenize(*text, tokens) : HostTensor();
}

/// The cached embeddings of a text, which becomes the most recently used one; null if there are none.
const Conditioning::Text* PromptReader::Desk::find(const Text& text) {
  const auto found = std::ranges::find(kept, text, &Reading::text);
  if (found == kept.end()) return nullptr;
  kept.splice(kept.begin(), kept, found);
  return &kept.front().made;
}

/// Puts the stage for so many ids first, compiled and loaded.
void PromptReader::bring_stage(Desk& desk, std::int64_t ids) {
  const auto found = std::ranges::find(desk.stages, ids, &SizedStage::ids);
  if (found != desk.stages.end()) return desk.stages.splice(desk.stages.begin(), desk.stages, found);
  if (desk.stages.size() == kMostStages) {
    offloader_->forget(desk.stages.back().stage);
    desk.stages.pop_back();
  }
  desk.stages.push_front({.ids = ids, .stage = compile_encoder(*desk.reader, ids)});
  offloader_->load(desk.stages.front().stage);
}

/// The embeddings of a text, by the first stage.
Conditioning::Text PromptReader::Desk::encode(Offloader& offloader, const Text& text, const HostTensor& ids) {
  auto& [read, stage] = stages.front();
  const std::int64_t text_tokens = text ? ids.numel() - reader->dropped_tokens : tokens;
  HR_CHECK(text_tokens > 0);
  if (text) {
    HostTensor filled(DType::kI32, {1, read});
    std::ranges::copy(ids.as<std::int32_t>(), filled.as<std::int32_t>().begin());
    stage.submit(offloader, [&](Session& session) {
      session.set_input("input_ids", filled);
      if (session.program().graph.find(ValueKind::kInput, kTextTokens) == kNoValue) return;
      HostTensor own(DType::kI32, {1});
      own.set(0, static_cast<double>(std::min(reader->count_tokens(*text), text_tokens)));
      session.set_input(kTextTokens, own);
    });
  }
  offloader.make_room_for(reading_bytes(text_tokens));
  Conditioning::Text made;
  for (const TextReading& reading : reader->readings) {
    const Session& session = *stage.session;
    DeviceTensor part = !text ? session.zero_output(reading.output)
                        : reader->pads
                            ? session.device_output(reading.output)
                            : session.device_output_rows(reading.output, reader->dropped_tokens, text_tokens);
    made.push_back(std::make_shared<const DeviceTensor>(std::move(part)));
  }
  return made;
}

void PromptReader::Desk::drop_old_readings() {
  std::size_t count = 0, bytes = 0;
  auto one = kept.begin();
  for (; one != kept.end() && count < kMostKept; ++one, ++count) {
    bytes += bytes_of(one->made);
    if (count > 0 && bytes > kMostKeptBytes) break;
  }
  kept.erase(one, kept.end());
}

std::vector<Conditioning::Text> PromptReader::read(std::size_t reader,
                                                   std::span<const std::optional<std::string>> texts,
                                                   std::vector<StageRun>& took) {
  Desk& desk = desks_.at(reader);
  std::vector<Text> asked(texts.begin(), texts.end());
  if (!desk.reader->no_text_is_zeros)
    for (Text& text : asked) text = text.value_or("");
  std::map<Text, HostTensor> ids;  // of texts that are not cached
  auto start = std::chrono::steady_clock::now();
  for (const Text& text : asked)
    if (!ids.contains(text) && desk.find(text) == nullptr) ids.emplace(text, desk.ids_of(text));
  if (!ids.empty()) add(took, {.name = "tokenize", .milliseconds = milliseconds_since(start)});

  start = std::chrono::steady_clock::now();
  std::map<Text, Conditioning::Text> made;  // kept alive here if the cache drops them meanwhile
  for (const Text& text : asked)
    if (!ids.contains(text)) made.emplace(text, *desk.find(text));
  for (const auto& [text, tokens] : ids) {
    if (!desk.reader->pads) bring_stage(desk, desk.reader->encoder_ids(tokens.numel()));
    desk.kept.push_front({text, desk.encode(*offloader_, text, tokens)});
    made.emplace(text, desk.kept.front().made);
  }
  std::vector<Conditioning::Text> parts;
  for (const Text& text : asked) parts.push_back(made.at(text));
  desk.drop_old_readings();
  if (!ids.empty())
    add(took, {.name = desk.reader->encoder,
               .milliseconds = milliseconds_since(start),
               .bytes = desk.stages.front().stage.session->activation_reserved_bytes(),
               .texts = std::ssize(ids)});
  return parts;
}

}  // namespace headroom
