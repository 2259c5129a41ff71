#include "pipelines/generator_pool.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "ir/param_name.hpp"

namespace headroom {

GeneratorPool::GeneratorPool(const Pipeline& pipeline, Backend& backend, WeightStore& weights, SwitchSet switches,
                             std::size_t memory_limit, NewWork after_the_first)
    : pipeline_(pipeline),
      backend_(backend),
      weights_(weights),
      switches_(std::move(switches)),
      memory_limit_(memory_limit),
      after_the_first_(after_the_first) {}

bool GeneratorPool::update_params(ParamUpdates updates) {
  std::function<void(std::size_t)> make_room;
  if (offloader_ != nullptr) make_room = [this](std::size_t bytes) { offloader_->make_room(bytes); };
  const std::vector<std::string> changed = weights_.update_params(std::move(updates), make_room);
  const auto is_read = [&](const TextReader& reader) {
    return std::ranges::any_of(
        changed, [&](const std::string& param) { return split_param_name(param).checkpoint == reader.encoder; });
  };
  if (std::ranges::any_of(pipeline_.text_readers(), is_read))
    for (const auto& [tokens, reader] : readers_) reader->forget();
  return !changed.empty();
}

Generator& GeneratorPool::get(RequestOptions options) {
  options.switches = switches_;
  options.memory_limit = memory_limit_;
  options.new_work = offloader_ == nullptr ? NewWork::kMeasure : after_the_first_;
  const Request request = pipeline_.resolve(options);
  if (const auto found = std::ranges::find(kept_, request, &Generator::request); found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return kept_.front();
  }
  if (kept_.size() == kMostKept) kept_.pop_back();  // before the new one allocates memory
  std::shared_ptr<PromptReader>& reader = readers_[request.text_tokens];
  const auto has_its_size = [&](const Generator& kept) {
    const std::shared_ptr<SizedDecoder> decoder = kept.shared().decoder;
    return decoder != nullptr && decoder->size == TokenSize{request.token_rows, request.token_columns};
  };
  const auto of_size = std::ranges::find_if(kept_, has_its_size);
  kept_.emplace_front(pipeline_, backend_, weights_, options,
                      SharedStages{reader, offloader_, of_size == kept_.end() ? nullptr : of_size->shared().decoder});
  const SharedStages shared = kept_.front().shared();
  reader = shared.reader;
  offloader_ = shared.offloader;
  return kept_.front();
}

}  // namespace headroom
