#include "pipelines/stages/prompt_reader.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "base/clock.hpp"

namespace headroom {

PromptReader::PromptReader(const Pipeline& pipeline, std::int64_t text_tokens, const SwitchSet& switches,
                           const DeviceTarget& target) {
  for (const TextReader& reader : pipeline.text_readers()) {
    const std::int64_t tokens = reader.tokens != 0 ? reader.tokens : text_tokens;
    const Component& encoder = pipeline.component(reader.encoder);
    Graph graph = encoder.build(pass_named(*encoder.kind, reader.pass), {{"input_ids", Shape{1, tokens}}});
    desks_.push_back({.reader = &reader,
                      .tokens = tokens,
                      .stage = compile_stage(reader.encoder, encoder, std::move(graph), switches, target)});
  }
}

PromptReader::~PromptReader() {
  if (offloader_ == nullptr) return;
  offloader_->remove_spare(this);
  for (const Desk& desk : desks_) offloader_->forget(desk.stage);
}

void PromptReader::load(const std::shared_ptr<Offloader>& offloader) {
  offloader_ = offloader;
  offloader_->add_spare(this, [this] { forget(); });
  for (Desk& desk : desks_) offloader_->load(desk.stage);
}

std::vector<const DeviceStage*> PromptReader::stages() const {
  std::vector<const DeviceStage*> stages;
  for (const Desk& desk : desks_) stages.push_back(&desk.stage);
  return stages;
}

void PromptReader::forget() {
  for (Desk& desk : desks_) desk.kept.clear();
}

std::size_t PromptReader::reading_bytes() const {
  std::size_t bytes = 0;
  for (const Desk& desk : desks_) bytes += desk.reading_bytes();
  return bytes;
}

std::size_t PromptReader::Desk::reading_bytes() const {
  const Graph& graph = stage.compiled.program->graph;
  std::size_t bytes = 0;
  for (const TextReading& reading : reader->readings)
    bytes += graph.type(std::ranges::find(graph.outputs(), reading.output, &Output::name)->value).bytes();
  return bytes;
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

/// Encodes a text and puts it first in the cache.
void PromptReader::Desk::read(Offloader& offloader, const Text& text, const HostTensor& ids) {
  if (text) stage.submit(offloader, "input_ids", ids);
  offloader.make_room_for(reading_bytes());
  Conditioning::Text made;
  for (const TextReading& reading : reader->readings) {
    DeviceTensor part =
        text ? stage.session->device_output(reading.output) : stage.session->zero_output(reading.output);
    made.push_back(std::make_shared<const DeviceTensor>(std::move(part)));
  }
  kept.push_front({text, std::move(made)});
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
    desk.read(*offloader_, text, tokens);
    made.emplace(text, desk.kept.front().made);
  }
  std::vector<Conditioning::Text> parts;
  for (const Text& text : asked) parts.push_back(made.at(text));
  const std::size_t most = std::clamp<std::size_t>(kMostKeptBytes / desk.reading_bytes(), 1, kMostKept);
  if (desk.kept.size() > most) desk.kept.resize(most);
  if (!ids.empty())
    add(took, {.name = desk.stage.name,
               .milliseconds = milliseconds_since(start),
               .bytes = desk.stage.session->activation_reserved_bytes(),
               .texts = std::ssize(ids)});
  return parts;
}

}  // namespace headroom
