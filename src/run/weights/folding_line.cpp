#include "run/weights/folding_line.hpp"

#include <algorithm>
#include <utility>

#include "run/session/session.hpp"

namespace headroom {
namespace {

/// The bytes of a tensor in a buffer, with alignment for the next one.
std::size_t room_for(const FoldingInput& input) { return part_bytes(std::max<std::size_t>(input.type.bytes(), 1)); }

/// The memory of one weight's params until it is folded.
struct Slot {
  Buffer buffer;
  std::unique_ptr<Event> is_filled;
  std::unique_ptr<Event> is_read;
};

}  // namespace

FoldingLine::FoldingLine(std::shared_ptr<const Program> program, std::span<const FoldingJob> jobs,
                         const ParamValues& params, Backend& backend)
    : program_(std::move(program)), jobs_(jobs), params_(params), backend_(backend) {
  for (const FoldingJob& job : jobs_) {
    inputs_.push_back(job.folding->inputs(params_));
    std::size_t of_params = 0;
    for (const FoldingInput& input : inputs_.back())
      (input.param.empty() ? added_bytes_ : of_params) += room_for(input);
    slot_bytes_ = std::max(slot_bytes_, of_params);
  }
}

std::size_t FoldingLine::bytes() const {
  const std::size_t slots = std::min(kSlots, jobs_.size());
  // The session has its own inputs until others are bound in their place.
  return program_->arena_bytes + (slots + 1) * slot_bytes_ + added_bytes_ + added_bytes_ / jobs_.size();
}

void FoldingLine::run(const std::shared_ptr<Stream>& stream, Stream& uploads,
                      const std::function<void()>& before_writing) const {
  // All memory is allocated first, because allocating and freeing synchronizes streams.
  Session session(program_, backend_, stream);
  session.release_inputs();
  const Buffer added = backend_.allocate(std::max<std::size_t>(added_bytes_, 1), MemoryCategory::kWeights);
  std::vector<Slot> slots(std::min(kSlots, jobs_.size()));
  for (Slot& slot : slots)
    slot = {.buffer = backend_.allocate(slot_bytes_, MemoryCategory::kWeights),
            .is_filled = backend_.make_event(),
            .is_read = backend_.make_event()};

  std::size_t offset = 0;
  for (const std::vector<FoldingInput>& inputs : inputs_)
    for (const FoldingInput& input : inputs) {
      if (!input.param.empty()) continue;
      input.write(params_, backend_, uploads, added.at(offset));
      offset += room_for(input);
    }

  offset = 0;
  for (std::size_t j = 0; j < jobs_.size(); ++j) {
    const Slot& slot = slots[j % slots.size()];
    if (j >= slots.size()) uploads.wait(*slot.is_read);
    std::size_t in_slot = 0;
    for (const FoldingInput& input : inputs_[j]) {
      const bool is_param = !input.param.empty();
      std::size_t& next = is_param ? in_slot : offset;
      const DevicePointer at = is_param ? slot.buffer.at(next) : added.at(next);
      next += room_for(input);
      if (is_param) input.write(params_, backend_, uploads, at);
      session.bind_input(input.name, {.at = at, .bytes = input.type.bytes()});
    }
    slot.is_filled->record(uploads);
    stream->wait(*slot.is_filled);
    session.submit();
    if (j == 0) before_writing();
    jobs_[j].folding->take_made(jobs_[j].wanted, session, backend_, *stream);
    slot.is_read->record(*stream);
  }
}

}  // namespace headroom
