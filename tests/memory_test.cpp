// What a session allocates, how large its arena is, what it copies, and how long planning takes.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "base/test_paths.hpp"
#include "pipelines/generator.hpp"
#include "run/compile.hpp"

namespace {

std::atomic<bool> counting{false};
std::atomic<long> allocations{0};

/// Whether code at `address` belongs to this program rather than to a library it loads (oneDNN allocates as it
/// pleases).
bool is_ours(void* address) {
  static const void* const own_base = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(&is_ours), &info);
    return info.dli_fbase;
  }();
  Dl_info info{};
  return dladdr(address, &info) != 0 && info.dli_fbase == own_base;
}

void* counted(std::size_t bytes, void* caller) {
  if (counting && is_ours(caller)) ++allocations;
  void* data = std::malloc(bytes == 0 ? 1 : bytes);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

}  // namespace

// Not inlined: the caller is who asked, and GCC would warn that malloc and delete do not match.
[[gnu::noinline]] void* operator new(std::size_t bytes) { return counted(bytes, __builtin_return_address(0)); }
[[gnu::noinline]] void* operator new[](std::size_t bytes) { return counted(bytes, __builtin_return_address(0)); }
[[gnu::noinline]] void operator delete(void* data) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete[](void* data) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void* data, std::size_t) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete[](void* data, std::size_t) noexcept { std::free(data); }

namespace headroom {
namespace {

class MemoryTest : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu);
  std::unique_ptr<Pipeline> pipeline_ = open_pipeline(std::string(kSourceDir) + "/models/fashion-flux");
  WeightStore weights_{*backend_, pipeline_->components()};
};

TEST_P(MemoryTest, TheSecondRunAllocatesNothing) {
  const Request request = pipeline_->resolve({.images = 1, .steps = 2, .switches = {}});
  const Compiled compiled =
      compile(pipeline_->build_denoise(request), SwitchSet::parse(GetParam()), backend_->properties().target);
  Session session(compiled.program, weights_, *backend_);
  for (const ValueId input : compiled.program->graph.values_of(ValueKind::kInput)) {
    const Value& value = compiled.program->graph.value(input);
    HostTensor tensor(value.type.dtype, value.type.shape);
    for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.set(i, 0.01 * static_cast<double>(i % 17));
    session.set_input(value.name, tensor);
  }
  session.set_state("latents", HostTensor(DType::kF32, {1, request.image_tokens(), 4}));
  const IterationObserver observer = [](std::int64_t, double) {};
  session.run(observer);
  const MemoryUse before = backend_->memory_use();
  allocations = 0;
  counting = true;
  session.run(observer);
  counting = false;
  EXPECT_EQ(allocations, 0);
  EXPECT_EQ(backend_->memory_use().allocations, before.allocations);
  EXPECT_EQ(backend_->memory_use().total, before.total);
}

TEST_P(MemoryTest, LiveBytesStayConstantOverAHundredSteps) {
  Generator generator(*pipeline_, *backend_, weights_,
                      {.images = 1, .steps = 100, .switches = SwitchSet::parse(GetParam())});
  std::size_t first = 0;
  std::int64_t steps = 0;
  const std::vector<ImageRequest> one = {{.label = 3, .seed = 1}};
  static_cast<void>(generator.generate(one, [&](std::int64_t step, double) {
    if (step == 0) first = backend_->memory_use().total;
    EXPECT_EQ(backend_->memory_use().total, first) << "step " << step;
    ++steps;
  }));
  EXPECT_EQ(steps, 100);
}

INSTANTIATE_TEST_SUITE_P(Switches, MemoryTest, testing::Values("", "hoist", "arena", "lossless"),
                         [](const auto& parameter) {
                           return std::string(parameter.param[0] == '\0' ? "baseline" : parameter.param);
                         });

TEST(MemoryTestCounter, SeesAnAllocation) {
  allocations = 0;
  counting = true;
  delete new std::string(100, 'x');
  counting = false;
  EXPECT_GT(allocations, 0);
}

TEST(Plan, ArenaIsWithinFivePercentOfTheBound) {
  const DeviceTarget target = make_backend(DeviceKind::kCpu)->properties().target;
  const std::unique_ptr<Pipeline> shipped = open_pipeline(std::string(kSourceDir) + "/models/fashion-flux");
  const std::unique_ptr<Pipeline> dev = open_pipeline("flux-dev", {.random_seed = 0});
  for (const Pipeline* each : {shipped.get(), dev.get()})
    for (const char* switches : {"arena", "arena,fuse", "lossless"})
      for (const std::int64_t images : {1, 10}) {
        const Request request = each->resolve({.images = images, .switches = {}});
        const Compiled compiled = compile(each->build_denoise(request), SwitchSet::parse(switches), target);
        EXPECT_GE(compiled.program->arena_bytes, compiled.program->arena_lower_bound_bytes);
        EXPECT_LE(static_cast<double>(compiled.program->arena_bytes),
                  1.05 * static_cast<double>(compiled.program->arena_lower_bound_bytes))
            << each->name() << " " << switches << " " << images;
      }
}

TEST(Plan, DoubleBlocksJoinTheValuesOfOneRequestWithoutACopy) {
  const DeviceTarget target = make_backend(DeviceKind::kCpu)->properties().target;
  const std::unique_ptr<Pipeline> shipped = open_pipeline(std::string(kSourceDir) + "/models/fashion-flux");
  const std::unique_ptr<Pipeline> dev = open_pipeline("flux-dev", {.random_seed = 0});
  for (const Pipeline* each : {shipped.get(), dev.get()})
    for (const char* switches : {"lossless", "fast"})
      for (const std::int64_t batch : {1, 2}) {
        const ForwardPass pass =
            each->forward_pass({.images = batch, .token_rows = 16, .token_columns = 16, .text_tokens = 32});
        const Compiled compiled = compile(pass, SwitchSet::parse(switches), target);
        const auto joins = std::ranges::count_if(compiled.program->steps, [](const Step& step) {
          return step.op == Op::kConcat && step.label.starts_with("transformer_blocks.");
        });
        EXPECT_EQ(joins, batch == 1 ? 0 : each->denoiser().config.at("num_layers").get<int>())
            << each->name() << " " << switches << " " << batch;
      }
}

}  // namespace
}  // namespace headroom
