// The order of param changes and runs: a CPU backend whose streams and events record what they are ordered after.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "ir/text/text.hpp"
#include "plan/plan.hpp"
#include "run/session/session.hpp"
#include "run/test_util.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {
namespace {

/// By stream: how much of each stream's work is ordered before.
using Seen = std::map<const Stream*, int>;

class NotingStream final : public Stream {
 public:
  void wait(const Event& event) override;
  void synchronize() override { ++synchronized; }
  [[nodiscard]] void* native_handle() const noexcept override { return nullptr; }

  Seen seen;
  int synchronized = 0;
};

class NotingEvent final : public Event {
 public:
  void record(Stream& stream) override {
    auto& noting = dynamic_cast<NotingStream&>(stream);
    ++noting.seen[&stream];
    seen = noting.seen;
  }
  [[nodiscard]] double milliseconds_since(const Event& /*start*/) const override { return 0; }

  Seen seen;
};

void NotingStream::wait(const Event& event) {
  for (const auto& [stream, count] : dynamic_cast<const NotingEvent&>(event).seen)
    seen[stream] = std::max(seen[stream], count);
}

class NotingBackend final : public ForwardingBackend {
 public:
  void copy_on_device(Stream& stream, DevicePointer to, DevicePointer from, std::size_t bytes) override {
    last_copy = &dynamic_cast<NotingStream&>(stream);
    seen_by_last_copy = last_copy->seen;
    ForwardingBackend::copy_on_device(stream, to, from, bytes);
  }
  [[nodiscard]] std::unique_ptr<Stream> make_stream() override { return std::make_unique<NotingStream>(); }
  [[nodiscard]] std::unique_ptr<Event> make_event() override { return std::make_unique<NotingEvent>(); }

  [[nodiscard]] std::size_t reserve_granularity() const override { return 1; }

  NotingStream* last_copy = nullptr;
  Seen seen_by_last_copy;

 protected:
  [[nodiscard]] void* reserve_bytes(std::size_t bytes) override { return allocate_bytes(bytes); }
  void unload_bytes(void* /*buffer*/, std::size_t /*bytes*/) override {}
  void reload_bytes(void* /*buffer*/, std::size_t /*bytes*/) override {}
  void free_reserved_bytes(void* buffer, std::size_t bytes) noexcept override { free_bytes(buffer, bytes); }
};

class WeightOrderTest : public testing::Test {
 protected:
  std::unique_ptr<Session> make_session(const std::string& param) {
    const Graph graph = parse_graph("graph g {\n input %x: f32[4]\n param %" + param + R"(: bf16[4]
      %2: f32[4] = cast(%)" + param +
                                    R"() {dtype = f32}
      %3: f32[4] = add(%x, %2)
      output y = %3
    })");
    auto session = std::make_unique<Session>(
        std::make_shared<Program>(plan(graph, backend_.properties().target, {.arena = true})), store_, backend_);
    session->set_input("x", HostTensor(DType::kF32, {4}));
    return session;
  }
  void change(const std::string& param) { store_.change_param(param, HostTensor(DType::kBF16, {4})); }
  static NotingStream& stream_of(Session& session) { return dynamic_cast<NotingStream&>(session.stream()); }
  /// How much of the stream's work is ordered before the last write to a weight.
  int seen_by_write(const Stream& stream) {
    const auto found = backend_.seen_by_last_copy.find(&stream);
    return found == backend_.seen_by_last_copy.end() ? 0 : found->second;
  }

  NotingBackend backend_;
  Checkpoint checkpoint_ = Checkpoint::random(
      nlohmann::json::object(),
      {{.name = "a", .dtype = DType::kBF16, .shape = {4}}, {.name = "b", .dtype = DType::kBF16, .shape = {4}}}, 1);
  WeightStore store_{backend_, checkpoint_};
};

TEST_F(WeightOrderTest, AChangeComesAfterTheLastRunAndBeforeTheNextOfThoseThatItConcerns) {
  const std::unique_ptr<Session> first = make_session("a"), second = make_session("a"), other = make_session("b");
  const auto submit_all = [&] {
    for (Session* session : {first.get(), second.get(), other.get()}) session->submit();
  };
  submit_all();
  for (int run = 1; run <= 3; ++run) {
    change("a");
    NotingStream& changes = *backend_.last_copy;
    EXPECT_EQ(seen_by_write(first->stream()), run);
    EXPECT_EQ(seen_by_write(second->stream()), run);
    EXPECT_EQ(seen_by_write(other->stream()), 0) << "its weights are not made of that param";
    const int written = seen_by_write(changes);
    submit_all();
    EXPECT_GT(stream_of(*first).seen[&changes], written);
    EXPECT_GT(stream_of(*second).seen[&changes], written);
    EXPECT_EQ(stream_of(*other).seen[&changes], 0);
  }
  for (Session* session : {first.get(), second.get(), other.get()}) EXPECT_EQ(stream_of(*session).synchronized, 0);
}

TEST_F(WeightOrderTest, AChangeComesAfterTheLastRunOfASessionThatIsGone) {
  const std::unique_ptr<Session> first = make_session("a");
  std::unique_ptr<Session> gone = make_session("a");
  const Stream* const its = &gone->stream();
  gone->submit();
  gone.reset();
  change("a");
  EXPECT_EQ(seen_by_write(*its), 1);
}

TEST_F(WeightOrderTest, AReturnComesAfterTheLastRunAndBeforeTheNextOfThoseWhoseWeightsItBrings) {
  const std::unique_ptr<Session> first = make_session("a"), second = make_session("a");
  const auto submit_both = [&] {
    for (Session* session : {first.get(), second.get()}) session->submit();
  };
  submit_both();
  for (int run = 1; run <= 3; ++run) {
    for (const Session* session : {first.get(), second.get()}) store_.unload(session->program());
    backend_.last_copy = nullptr;
    store_.reload(first->program());
    ASSERT_NE(backend_.last_copy, nullptr);
    NotingStream& returns = *backend_.last_copy;
    EXPECT_EQ(seen_by_write(first->stream()), run);
    EXPECT_EQ(seen_by_write(second->stream()), run);
    const int written = seen_by_write(returns), waits = returns.synchronized;
    store_.reload(second->program());  // submits nothing, although earlier copies may be in progress
    submit_both();
    EXPECT_GT(stream_of(*first).seen[&returns], written);
    EXPECT_GT(stream_of(*second).seen[&returns], written);
    EXPECT_EQ(returns.synchronized, waits);
  }
  for (Session* session : {first.get(), second.get()}) EXPECT_EQ(stream_of(*session).synchronized, 0);
}

}  // namespace
}  // namespace headroom
