#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>

#include "pipelines/generator.hpp"

namespace headroom {

/// Generators of one pipeline under one set of switches, for requests of any size: those used last are kept. They share
/// weights and what reads prompts. The first measures what is fastest for work that is new; those after it, for which somebody waits, take
/// over what was so in the nearest size, unless they are to measure as well.
class GeneratorPool {
 public:
  /// The first three must outlive the pool. `memory_limit` is that of RequestOptions, for all generators together.
  GeneratorPool(const Pipeline& pipeline, Backend& backend, WeightStore& weights, SwitchSet switches,
                std::size_t memory_limit = 0, NewWork after_the_first = NewWork::kTakeOver);

  /// Makes params what they are beside these updates for all generators, those that are made later too. What differs
  /// from the updates before is folded again where it lies; prompts are read anew where it is of what reads them. Returns
  /// whether anything differs. Throws as WeightStore::update_params().
  bool update_params(ParamUpdates updates);

  /// The generator of a request, whose own switches, limit and new_work are not looked at; valid until get() is called again.
  Generator& get(RequestOptions options);

 private:
  static constexpr std::size_t kMostKept = 4;

  const Pipeline& pipeline_;
  Backend& backend_;
  WeightStore& weights_;
  SwitchSet switches_;
  std::size_t memory_limit_;
  NewWork after_the_first_;
  std::shared_ptr<Offloader> offloader_;                           // null until there is a generator
  std::map<std::int64_t, std::shared_ptr<PromptReader>> readers_;  // by text tokens
  std::list<Generator> kept_;                                      // the one used last in front
};

}  // namespace headroom
