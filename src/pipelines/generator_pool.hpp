#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>

#include "pipelines/generator.hpp"

namespace headroom {

/// Generators of one pipeline under one set of switches, for requests of any size: those used last are kept. They share
/// weights and what reads prompts.
class GeneratorPool {
 public:
  /// The first three must outlive the pool. `memory_limit` is that of RequestOptions, for all generators together.
  GeneratorPool(const Pipeline& pipeline, Backend& backend, WeightStore& weights, SwitchSet switches,
                std::size_t memory_limit = 0);

  /// Makes params what they are beside these updates for all generators, those that are made later too. What differs
  /// from the updates before is folded again where it lies; prompts are read anew where it is of what reads them. Returns
  /// whether anything differs. Throws as WeightStore::update_params().
  bool update_params(ParamUpdates updates);

  /// The generator of a request, whose own switches and limit are not looked at; valid until get() is called again.
  Generator& get(RequestOptions options);

 private:
  static constexpr std::size_t kMostKept = 4;

  const Pipeline& pipeline_;
  Backend& backend_;
  WeightStore& weights_;
  SwitchSet switches_;
  std::size_t memory_limit_;
  std::shared_ptr<Turns> turns_;                                   // null until there is a generator
  std::map<std::int64_t, std::shared_ptr<PromptReader>> readers_;  // by text tokens
  std::list<Generator> kept_;                                      // the one used last in front
};

}  // namespace headroom
