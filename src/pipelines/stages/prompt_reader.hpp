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

/// The text encoders of a pipeline, compiled under some switches for prompts of one length: they read one prompt at a
/// time, so that what is read does not depend on how prompts are batched, and keep what they read of the last ones.
/// Generators of one pipeline may share it.
class PromptReader {
 public:
  /// The pipeline must outlive it. A reader whose own `tokens` is 0 is given `text_tokens`.
  PromptReader(const Pipeline& pipeline, std::int64_t text_tokens, const SwitchSet& switches, const Target& target);

  ~PromptReader();
  PromptReader(const PromptReader&) = delete;
  PromptReader& operator=(const PromptReader&) = delete;

  /// Loads its encoders, which take turns with the other stages there are.
  void load(const std::shared_ptr<Offloader>& offloader);
  [[nodiscard]] std::vector<const DeviceStage*> stages() const;

  /// What a reader, by its number, makes of each text, read or kept; and in place of none what it says (`TextReader`).
  /// Adds to `took` the stages that ran: `tokenize`, and the encoder's.
  [[nodiscard]] std::vector<Conditioning::Text> read(std::size_t reader,
                                                     std::span<const std::optional<std::string>> texts,
                                                     std::vector<StageRun>& took);
  /// Drops what is kept.
  void forget();
  /// Of what all readers make of a text, on the device.
  [[nodiscard]] std::size_t reading_bytes() const;

 private:
  /// Zeros in place of no text.
  using Text = std::optional<std::string>;
  struct Reading {
    Text text;
    Conditioning::Text made;
  };
  /// A reader at work.
  struct Desk {
    const TextReader* reader;
    std::int64_t tokens;
    DeviceStage stage;
    std::list<Reading> kept = {};  // the one used last in front
    [[nodiscard]] const Conditioning::Text* find(const Text& text);
    [[nodiscard]] std::size_t reading_bytes() const;
    [[nodiscard]] HostTensor ids_of(const Text& text) const;
    void read(Offloader& offloader, const Text& text, const HostTensor& ids);
  };

  static constexpr std::size_t kMostKept = 64;                           // of a reader
  static constexpr std::size_t kMostKeptBytes = std::size_t{128} << 20;  // 16 texts of T5-XXL's 512 tokens

  std::vector<Desk> desks_;               // by reader
  std::shared_ptr<Offloader> offloader_;  // null until load()
};

}  // namespace headroom
