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
  /// The first three must outlive the pool.
  GeneratorPool(const Pipeline& pipeline, Backend& backend, WeightStore& weights, SwitchSet switches);

  /// The generator of a request, whose own switches are not looked at; valid until get() is called again.
  Generator& get(RequestOptions options);

 private:
  static constexpr std::size_t kMostKept = 4;

  const Pipeline& pipeline_;
  Backend& backend_;
  WeightStore& weights_;
  SwitchSet switches_;
  std::map<std::int64_t, std::shared_ptr<PromptReader>> readers_;  // by text tokens
  std::list<Generator> kept_;                                      // the one used last in front
};

}  // namespace headroom
