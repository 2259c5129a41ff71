#include "pipelines/generator_pool.hpp"

#include <algorithm>
#include <utility>

namespace headroom {

GeneratorPool::GeneratorPool(const Pipeline& pipeline, Backend& backend, WeightStore& weights, SwitchSet switches,
                             std::size_t memory_limit)
    : pipeline_(pipeline),
      backend_(backend),
      weights_(weights),
      switches_(std::move(switches)),
      memory_limit_(memory_limit) {}

Generator& GeneratorPool::get(RequestOptions options) {
  options.switches = switches_;
  options.memory_limit = memory_limit_;
  const Request request = pipeline_.resolve(options);
  if (const auto found = std::ranges::find(kept_, request, &Generator::request); found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return kept_.front();
  }
  if (kept_.size() == kMostKept) kept_.pop_back();  // before the new one takes memory
  std::shared_ptr<PromptReader>& reader = readers_[request.text_tokens];
  kept_.emplace_front(pipeline_, backend_, weights_, options, SharedStages{.reader = reader, .turns = turns_});
  const SharedStages shared = kept_.front().shared();
  reader = shared.reader;
  turns_ = shared.turns;
  return kept_.front();
}

}  // namespace headroom
