#include "run/session/session.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "run/weights/held_weights.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {

Session::Session(std::shared_ptr<const Program> program, WeightStore& weights, Backend& backend,
                 std::shared_ptr<Stream> stream)
    : Session(std::move(program), backend, std::move(stream), SessionMemory::Arena::kMayLeave) {
  hold(weights);
  if (program_->setup == nullptr) return;
  setup_ = std::make_shared<Session>(program_->setup, weights, backend, stream_);
  bind_setup();
}

Session::Session(std::shared_ptr<const Program> program, WeightStore& weights, Backend& backend,
                 std::shared_ptr<Session> setup)
    : Session(std::move(program), backend, setup->stream_, SessionMemory::Arena::kMayLeave) {
  HR_CHECK(setup->program_ == program_->setup);
  hold(weights);
  setup_ = std::move(setup);
  is_setup_apart_ = true;
  bind_setup();
}

Session::Session(std::shared_ptr<const Program> program, Backend& backend, std::shared_ptr<Stream> stream)
    : Session(std::move(program), backend, std::move(stream), SessionMemory::Arena::kStays) {
  if (program_->setup == nullptr) return;
  setup_ = std::make_shared<Session>(program_->setup, backend, stream_);
  bind_setup();
}

Session::Session(std::shared_ptr<const Program> program, Backend& backend, std::shared_ptr<Stream> stream,
                 SessionMemory::Arena arena)
    : program_(std::move(program)),
      backend_(backend),
      stream_(stream ? std::move(stream) : backend.make_stream()),
      completion_(backend.make_event()),
      memory_(*program_, backend, arena),
      executor_(*program_, backend, *stream_, memory_) {}

Session::~Session() = default;

void Session::hold(WeightStore& weights) {
  weights_ = weights.hold(*program_, completion_);
  for (std::size_t i = 0; i < program_->weights.size(); ++i)
    memory_.set_weight(program_->weights[i].storage, weights_->weights()[i]->at());
}

/// The setup writes its outputs directly to the inputs that read them.
void Session::bind_setup() {
  for (const Output& output : program_->setup->graph.outputs()) {
    const ValueId input = require(ValueKind::kInput, output.name);
    if (const DevicePointer at = given_pointer(input))
      setup_->bind_output(output.name, {.at = at, .bytes = program_->graph.type(input).bytes()});
  }
}

/// The setup, if it reads an input of that name, which is about to change; it must then run again. Otherwise null.
Session* Session::setup_with(std::string_view input) {
  if (setup_ == nullptr || program_->setup->graph.find(ValueKind::kInput, input) == kNoValue) return nullptr;
  is_setup_due_ = true;
  return setup_.get();
}

bool Session::is_own_setup_due() const {
  return owns_setup() && (is_setup_due_ || (setup_->weights_ && setup_->weights_->has_changed()));
}

void Session::submit_setup() {
  HR_CHECK(setup_ != nullptr);
  setup_->submit();
  is_setup_due_ = false;
  ++setups_;
}

ValueId Session::require(ValueKind kind, std::string_view name) const {
  const ValueId value = program_->graph.find(kind, name);
  const char* what = kind == ValueKind::kState ? "state" : "input";
  if (value == kNoValue) fail("{} has no {} called '{}'", program_->graph.name(), what, name);
  return value;
}

void Session::write(ValueId value, std::string_view what, const HostTensor& tensor) {
  const TensorType& type = program_->graph.type(value);
  if (tensor.dtype() != type.dtype || !(tensor.shape() == type.shape))
    fail("{} '{}' is {}{}, expected {}{}", what, program_->graph.value(value).name, tensor.dtype(), tensor.shape(),
         type.dtype, type.shape);
  const int storage = program_->places[index_of(value)].storage;
  if (storage < 0) return;  // declared but unused
  backend_.copy_from_host(*stream_, memory_.base(storage), tensor.bytes().data(), tensor.bytes().size());
  memory_.set_given(storage);
}

void Session::set_input(std::string_view name, const HostTensor& tensor) {
  write(require(ValueKind::kInput, name), "input", tensor);
  if (Session* const setup = setup_with(name)) setup->set_input(name, tensor);
}
void Session::set_state(std::string_view name, const HostTensor& tensor) {
  write(require(ValueKind::kState, name), "state", tensor);
}

/// The address of an input or state, which counts as set from now on; null if nothing reads it.
DevicePointer Session::given_pointer(ValueId value) {
  const int storage = program_->places[index_of(value)].storage;
  if (storage < 0) return {};
  memory_.set_given(storage);
  return memory_.base(storage);
}

void Session::set_input_bytes(std::string_view name, std::span<const std::byte> bytes) {
  const ValueId input = require(ValueKind::kInput, name);
  HR_CHECK_EQ(bytes.size(), program_->graph.type(input).bytes());
  if (const DevicePointer to = given_pointer(input)) backend_.copy_from_host(*stream_, to, bytes.data(), bytes.size());
  if (Session* const setup = setup_with(name)) setup->set_input_bytes(name, bytes);
}

void Session::fill_input(std::string_view name, const std::function<void(DevicePointer to)>& fill) {
  if (const DevicePointer to = given_pointer(require(ValueKind::kInput, name))) fill(to);
  if (Session* const setup = setup_with(name)) setup->fill_input(name, fill);
}

void Session::set_input_part(std::string_view name, std::int64_t index, const DeviceTensor& part) {
  write_part(require(ValueKind::kInput, name), "input", index, part);
  if (Session* const setup = setup_with(name)) setup->set_input_part(name, index, part);
}
void Session::set_state_part(std::string_view name, std::int64_t index, const DeviceTensor& part) {
  write_part(require(ValueKind::kState, name), "state", index, part);
}

void Session::write_part(ValueId value, std::string_view what, std::int64_t index, const DeviceTensor& part) {
  const TensorType& type = program_->graph.type(value);
  Shape whole = part.shape;
  whole.set(0, type.shape[0]);
  if (part.dtype != type.dtype || part.shape[0] > type.shape[0] || !(whole == type.shape))
    fail("part {} of {} '{}' is {}{}, of {}{}", index, what, program_->graph.value(value).name, part.dtype, part.shape,
         type.dtype, type.shape);
  HR_CHECK(index >= 0 && index + part.shape[0] <= type.shape[0]);
  const std::size_t bytes = part.memory.bytes(), of_one = type.bytes() / static_cast<std::size_t>(type.shape[0]);
  if (const DevicePointer to = given_pointer(value))
    backend_.copy_on_device(*stream_, to + static_cast<std::size_t>(index) * of_one, part.memory.at(), bytes);
}

void Session::set_input_normal(std::string_view name, const NormalStream& values) {
  const ValueId input = require(ValueKind::kInput, name);
  const TensorType& type = program_->graph.type(input);
  if (const DevicePointer to = given_pointer(input))
    backend_.fill_normal(*stream_, to, type.dtype, static_cast<std::uint64_t>(type.shape.numel()), values);
  if (Session* const setup = setup_with(name)) setup->set_input_normal(name, values);
}

void Session::set_state_normal(std::string_view name, std::int64_t index, const NormalStream& values) {
  const ValueId state = require(ValueKind::kState, name);
  const TensorType& type = program_->graph.type(state);
  HR_CHECK(index >= 0 && index < type.shape[0]);
  const auto count = static_cast<std::uint64_t>(type.shape.numel() / type.shape[0]);
  const std::size_t offset = static_cast<std::size_t>(index) * count * size_of(type.dtype);
  if (const DevicePointer to = given_pointer(state))
    backend_.fill_normal(*stream_, to + offset, type.dtype, count, values);
}

void Session::bind(Bound what, ValueId value, const DeviceMemory& memory) {
  const Value& bound = program_->graph.value(value);
  bindings_.add(what, bound.name, memory, bound.type.bytes(), program_->target.device->alignment);
  is_rebound_ = true;
  if (const int storage = program_->places[index_of(value)].storage; storage >= 0) memory_.bind(storage, memory.at);
}

void Session::unbind(Bound what, ValueId value) {
  bindings_.remove(what, program_->graph.value(value).name);
  is_rebound_ = true;
  if (const int storage = program_->places[index_of(value)].storage; storage >= 0) memory_.unbind(storage);
}

void Session::bind_input(std::string_view name, const DeviceMemory& memory) {
  bind(Bound::kInput, require(ValueKind::kInput, name), memory);
  if (Session* const setup = setup_with(name)) setup->bind_input(name, memory);
}
void Session::bind_state(std::string_view name, const DeviceMemory& memory) {
  bind(Bound::kState, require(ValueKind::kState, name), memory);
}
void Session::unbind_input(std::string_view name) {
  unbind(Bound::kInput, require(ValueKind::kInput, name));
  if (Session* const setup = setup_with(name)) setup->unbind_input(name);
}
void Session::unbind_state(std::string_view name) { unbind(Bound::kState, require(ValueKind::kState, name)); }

/// Whether an output has a storage that can be bound; an output with two names, under the first one.
bool Session::is_apart(std::size_t output) const {
  const int storage = program_->outputs[output].storage;
  return program_->storages[static_cast<std::size_t>(storage)].kind == StorageKind::kOutput &&
         std::ranges::find(program_->outputs, storage, &Place::storage) ==
             program_->outputs.begin() + static_cast<std::ptrdiff_t>(output);
}

void Session::bind_output(std::string_view name, const DeviceMemory& memory) {
  const std::size_t output = index_of_output(name);
  const TensorType& type = program_->graph.type(program_->graph.outputs()[output].value);
  bindings_.add(Bound::kOutput, name, memory, type.bytes(), program_->target.device->alignment);
  is_rebound_ = true;
  if (is_apart(output)) return memory_.bind(program_->outputs[output].storage, memory.at);
  const auto known = std::ranges::find(output_copies_, output, &OutputCopy::output);
  if (known != output_copies_.end())
    known->to = memory;
  else
    output_copies_.push_back({.output = output, .to = memory});
}

void Session::unbind_output(std::string_view name) {
  const std::size_t output = index_of_output(name);
  bindings_.remove(Bound::kOutput, name);
  is_rebound_ = true;
  if (is_apart(output)) memory_.unbind(program_->outputs[output].storage);
  std::erase_if(output_copies_, [&](const OutputCopy& copy) { return copy.output == output; });
}

void Session::run(const IterationObserver& observer) {
  submit(observer);
  stream_->synchronize();
}

void Session::require_given() const {
  for (const ValueKind kind : {ValueKind::kInput, ValueKind::kState})
    for (std::size_t v = 0; v < program_->graph.value_count(); ++v) {
      const Value& value = program_->graph.value(ValueId(static_cast<int>(v)));
      const int storage = program_->places[v].storage;
      if (value.kind == kind && storage >= 0 && !memory_.is_given(storage))
        fail("{} needs '{}', which has not been given", program_->graph.name(), value.name);
    }
}

void Session::unload() {
  if (!program_->has_arena) fail("{} has no arena to unload: its memory comes and goes", program_->graph.name());
  memory_.unload_arena();
  is_arena_empty_ = true;
  if (owns_setup()) setup_->unload();
}

void Session::reload() {
  memory_.reload_arena();
  if (owns_setup()) setup_->reload();
}

void Session::release_inputs() {
  memory_.release_inputs();
  if (setup_) setup_->release_inputs();
}

bool Session::is_loaded() const noexcept {
  return memory_.is_arena_loaded() && (weights_ == nullptr || weights_->is_loaded()) &&
         (!owns_setup() || setup_->is_loaded());
}

void Session::submit(const IterationObserver& observer) {
  require_given();
  if (!memory_.is_arena_loaded()) fail("{} is unloaded: reload it first", program_->graph.name());
  if (is_own_setup_due()) submit_setup();
  if (is_setup_apart_ && is_setup_due_) fail("the setup of {} has not run on its inputs", program_->graph.name());
  if (is_rebound_) {
    bindings_.require_apart();
    executor_.note_binding();
    is_rebound_ = false;
  }
  if (weights_) weights_->wait_for_changes(*stream_);
  is_arena_empty_ = false;
  executor_.run(observer);
  copy_outputs();
  completion_->record(*stream_);
}

void Session::copy_outputs() {
  copied_bytes_ = 0;
  for (const OutputCopy& copy : output_copies_) {
    backend_.copy_on_device(*stream_, copy.to.at, memory_.at(program_->outputs[copy.output]), copy.to.bytes);
    copied_bytes_ += copy.to.bytes;
  }
}

std::size_t Session::index_of_output(std::string_view name) const {
  const std::span<const Output> outputs = program_->graph.outputs();
  const auto found = std::ranges::find(outputs, name, &Output::name);
  if (found == outputs.end()) fail("{} has no output called '{}'", program_->graph.name(), name);
  return static_cast<std::size_t>(found - outputs.begin());
}

/// Throws Error if the memory at `place` has been freed.
void Session::require_readable(const Place& place) const {
  const Storage& storage = program_->storages[static_cast<std::size_t>(place.storage)];
  if (is_arena_empty_ && is_activation(storage))
    fail("{} has been unloaded since its last run, and its outputs with it", program_->graph.name());
}

DevicePointer Session::output_pointer(std::string_view name) const {
  const Place& place = program_->outputs[index_of_output(name)];
  require_readable(place);
  return memory_.at(place);
}

HostTensor Session::read(const TensorType& type, const Place& place) const {
  require_readable(place);
  HostTensor tensor(type.dtype, type.shape);
  backend_.copy_to_host(*stream_, tensor.bytes().data(), memory_.at(place), tensor.bytes().size());
  stream_->synchronize();
  return tensor;
}

HostTensor Session::output(std::string_view name) const {
  const std::size_t output = index_of_output(name);
  return read(program_->graph.type(program_->graph.outputs()[output].value), program_->outputs[output]);
}

DeviceTensor Session::device_output(std::string_view name) const {
  const std::size_t output = index_of_output(name);
  const TensorType& type = program_->graph.type(program_->graph.outputs()[output].value);
  DeviceTensor tensor{
      .dtype = type.dtype, .shape = type.shape, .memory = backend_.allocate(type.bytes(), MemoryCategory::kInputs)};
  backend_.copy_on_device(*stream_, tensor.memory.at(), output_pointer(name), type.bytes());
  stream_->synchronize();
  return tensor;
}

DeviceTensor Session::device_output_rows(std::string_view name, std::int64_t first, std::int64_t count) const {
  const TensorType& type = program_->graph.type(program_->graph.outputs()[index_of_output(name)].value);
  HR_CHECK(type.shape.rank() >= 2 && type.shape[0] == 1 && first >= 0 && first + count <= type.shape[1]);
  Shape rows(type.shape.dims().subspan(1));
  rows.set(0, count);
  const std::size_t of_one = type.bytes() / static_cast<std::size_t>(type.shape[1]);
  const std::size_t bytes = of_one * static_cast<std::size_t>(count);
  DeviceTensor tensor{.dtype = type.dtype, .shape = rows, .memory = backend_.allocate(bytes, MemoryCategory::kInputs)};
  backend_.copy_on_device(*stream_, tensor.memory.at(), output_pointer(name) + of_one * static_cast<std::size_t>(first),
                          bytes);
  stream_->synchronize();
  return tensor;
}

DeviceTensor Session::zero_output(std::string_view name) const {
  const TensorType& type = program_->graph.type(program_->graph.outputs()[index_of_output(name)].value);
  DeviceTensor tensor{
      .dtype = type.dtype, .shape = type.shape, .memory = backend_.allocate(type.bytes(), MemoryCategory::kInputs)};
  const HostTensor zeros(type.dtype, type.shape);
  backend_.copy_from_host(*stream_, tensor.memory.at(), zeros.bytes().data(), zeros.bytes().size());
  stream_->synchronize();
  return tensor;
}

HostTensor Session::state(std::string_view name) const {
  const ValueId state = require(ValueKind::kState, name);
  return read(program_->graph.type(state), program_->places[index_of(state)]);
}

}  // namespace headroom
