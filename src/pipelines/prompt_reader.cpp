#include "pipelines/prompt_reader.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "base/clock.hpp"

namespace headroom {

PromptReader::PromptReader(const Pipeline& pipeline, std::int64_t text_tokens, const SwitchSet& switches,
                           const Target& target) {
  for (const TextReader& reader : pipeline.text_readers()) {
    const std::int64_t tokens = reader.tokens != 0 ? reader.tokens : text_tokens;
    const Component& encoder = pipeline.component(reader.encoder);
    Graph graph = encoder.build(pass_named(*encoder.kind, "encode"), {{"input_ids", Shape{1, tokens}}});
    desks_.push_back({.reader = &reader,
                      .tokens = tokens,
                      .stage = compile_stage(reader.encoder, encoder, std::move(graph), switches, target)});
  }
}

PromptReader::~PromptReader() {
  if (turns_ == nullptr) return;
  for (const Desk& desk : desks_) turns_->forget(desk.stage);
}

void PromptReader::load(const std::shared_ptr<Turns>& turns) {
  turns_ = turns;
  for (Desk& desk : desks_) turns_->load(desk.stage);
}

std::vector<const DeviceStage*> PromptReader::stages() const {
  std::vector<const DeviceStage*> stages;
  for (const Desk& desk : desks_) stages.push_back(&desk.stage);
  return stages;
}

void PromptReader::forget() {
  for (Desk& desk : desks_) desk.kept.clear();
}

/// What is kept of a text, which is then the one used last; null where nothing is.
const HostTensor* PromptReader::Desk::find(const std::string& text) {
  const auto found = std::ranges::find(kept, text, &Reading::text);
  if (found == kept.end()) return nullptr;
  kept.splice(kept.begin(), kept, found);
  return &kept.front().made;
}

std::vector<HostTensor> PromptReader::read(std::size_t reader, std::span<const std::string> texts,
                                           std::vector<StageRun>& took) {
  Desk& desk = desks_.at(reader);
  std::map<std::string, HostTensor> ids;  // of texts that are not kept
  auto start = std::chrono::steady_clock::now();
  for (const std::string& text : texts)
    if (!ids.contains(text) && desk.find(text) == nullptr) ids.emplace(text, desk.reader->tokenize(text, desk.tokens));
  if (!ids.empty()) add(took, {.name = "tokenize", .milliseconds = milliseconds_since(start)});

  start = std::chrono::steady_clock::now();
  std::vector<HostTensor> made;
  for (const std::string& text : texts) {
    const HostTensor* kept = desk.find(text);
    if (kept == nullptr) {
      desk.kept.push_front({text, desk.stage.run(*turns_, "input_ids", ids.at(text), desk.reader->output)});
      kept = &desk.kept.front().made;
    }
    made.push_back(*kept);
  }
  if (desk.kept.size() > kMostKept) desk.kept.resize(kMostKept);
  if (!ids.empty())
    add(took, {.name = desk.stage.name,
               .milliseconds = milliseconds_since(start),
               .bytes = desk.stage.session->activation_reserved_bytes(),
               .texts = std::ssize(ids)});
  return made;
}

}  // namespace headroom
