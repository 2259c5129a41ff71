#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>

#include "pipelines/generator.hpp"

namespace headroom {

/// Generators of one pipeline under one set of switches, for requests of any size. The most recently used ones are
/// kept. They share weights and the reader of prompts. For new work, the first generator measures the fastest
/// algorithms. Later ones take over the choices of the nearest tuned size, because a caller waits for them, unless
/// they are to measure too.
class GeneratorPool {
 public:
  /// Pipeline, backend and store must outlive the pool. `memory_limit` is that of RequestOptions, for all generators
  /// together.
  GeneratorPool(const Pipeline& pipeline, Backend& backend, WeightStore& weights, SwitchSet switches,
                std::size_t memory_limit = 0, NewWork after_the_first = NewWork::kTakeOver);

  /// Replaces the updates of params, for existing and later generators. Weights whose updates differ from the
  /// previous ones are folded again in place; prompts are encoded again if a text encoder changed. Returns whether
  /// anything changed. Throws as WeightStore::update_params().
  bool update_params(ParamUpdates updates);

  /// The generator of a request; valid until get() is called again. The switches, limit and new_work of `options` are
  /// ignored.
  Generator& get(RequestOptions options);

 private:
  static constexpr std::size_t kMostKept = 4;

  const Pipeline& pipeline_;
  Backend& backend_;
  WeightStore& weights_;
  SwitchSet switches_;
  std::size_t memory_limit_;
  NewWork after_the_first_;
  std::shared_ptr<Offloader> offloader_;                           // null until the first generator exists
  std::map<std::int64_t, std::shared_ptr<PromptReader>> readers_;  // by text tokens
  std::list<Generator> kept_;                                      // the most recently used one first
};

}  // namespace headroom
