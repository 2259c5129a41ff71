#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/tensors/host_tensor.hpp"
#include "pipelines/pipeline.hpp"
#include "pipelines/stages/device_stage.hpp"

namespace headroom {

/// The text encoders of a pipeline, compiled under switches for prompts of one length, or of any up to that length if
/// prompts are not padded. They encode one prompt at a time, so that the result does not depend on how prompts are
/// batched, and cache the last results. Generators of one pipeline may share it.
class PromptReader {
 public:
  /// The pipeline must outlive it. A text reader whose own `tokens` is 0 uses `text_tokens`. If its prompts are not
  /// padded, the encoder is compiled for the longest of `expected`, and for others when they come.
  PromptReader(const Pipeline& pipeline, std::int64_t text_tokens, SwitchSet switches, DeviceTarget target,
               std::span<const std::int64_t> expected = {});

  ~PromptReader();
  PromptReader(const PromptReader&) = delete;
  PromptReader& operator=(const PromptReader&) = delete;

  /// Loads its encoders, which are offloaded together with the other stages.
  void load(const std::shared_ptr<Offloader>& offloader);
  [[nodiscard]] std::vector<const DeviceStage*> stages() const;

  /// The embeddings of each text by a text reader, given by index; cached if possible. A missing text becomes what
  /// its `TextReader` defines. Adds the stages that ran to `took`: `tokenize` and the encoder's.
  [[nodiscard]] std::vector<Conditioning::Text> read(std::size_t reader,
                                                     std::span<const std::optional<std::string>> texts,
                                                     std::vector<StageRun>& took);
  /// How the fastest algorithms of encoders are found that are compiled from now on, for texts of other lengths.
  void set_new_work(NewWork new_work) { target_.new_work = new_work; }
  /// Clears the cache.
  void forget();
  /// Device memory of the embeddings of one text, for all readers; of the longest one, if texts are not padded.
  [[nodiscard]] std::size_t reading_bytes() const;

 private:
  /// A missing text may read as zeros.
  using Text = std::optional<std::string>;
  struct Reading {
    Text text;
    Conditioning::Text made;
  };
  /// An encoder compiled for this many ids.
  struct SizedStage {
    std::int64_t ids;
    DeviceStage stage;
  };
  /// A text reader with its stages and cache.
  struct Desk {
    const TextReader* reader;
    std::int64_t tokens;                // the most that are read of a text
    std::int64_t expected;              // the most of the texts that are known
    std::list<SizedStage> stages = {};  // the most recently used one first
    std::list<Reading> kept = {};       // likewise
    [[nodiscard]] const Conditioning::Text* find(const Text& text);
    [[nodiscard]] std::size_t reading_bytes(std::int64_t tokens) const;
    [[nodiscard]] HostTensor ids_of(const Text& text) const;
    [[nodiscard]] Conditioning::Text encode(Offloader& offloader, const Text& text, const HostTensor& ids);
    void drop_old_readings();
  };

  static constexpr std::size_t kMostKept = 64;                           // per reader
  static constexpr std::size_t kMostKeptBytes = std::size_t{128} << 20;  // 16 texts of T5-XXL's 512 tokens
  static constexpr std::size_t kMostStages = 4;                          // per reader

  [[nodiscard]] DeviceStage compile_encoder(const TextReader& reader, std::int64_t ids) const;
  void bring_stage(Desk& desk, std::int64_t ids);

  const Pipeline& pipeline_;
  SwitchSet switches_;
  DeviceTarget target_;
  std::vector<Desk> desks_;               // by reader
  std::shared_ptr<Offloader> offloader_;  // null until load()
};

}  // namespace headroom
