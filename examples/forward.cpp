// One pass of a network on noise: what the switches became, what it gives, how long it takes.
//
//     forward [MODEL [SWITCHES [DEVICE]]]        forward fashion-flux flash,fuse,bf16 cpu

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "inputs.hpp"

namespace {

constexpr headroom::PassSize kSize{.batch = 1, .height = 256, .width = 256, .text_tokens = 16};
constexpr int kRuns = 5;

double norm(std::span<const float> elements) {
  double squares = 0;
  for (const float element : elements) squares += static_cast<double>(element) * element;
  return std::sqrt(squares);
}

void forward(const std::string& model, const std::string& switches, const std::string& device_name) {
  const headroom::Device device(device_name);
  const headroom::Component network(device, model);
  std::printf("%s (%s), %lld parameters, on %s, %s\n", network.name().c_str(), network.class_name().c_str(),
              static_cast<long long>(network.parameters()), device.name().c_str(), device.description().c_str());

  const std::string pass_name = network.passes().front().name;
  const headroom::CompiledPass pass = network.compile(pass_name, network.input_shapes(pass_name, kSize), switches);
  std::printf("%s: %zu launches, %.1f MiB\n", pass.name().c_str(), pass.launches().size(),
              static_cast<double>(pass.memory_need().total()) / (1 << 20));
  for (const std::string& applied : pass.applied()) std::printf("applied %s\n", applied.c_str());
  for (const auto& [name, reason] : pass.declined()) std::printf("declined %s: %s\n", name.c_str(), reason.c_str());

  headroom::Session session(pass);
  set_noise(session);
  session.run();  // the first finds caches cold and, on a GPU, kernels not loaded
  std::vector<double> times;
  for (int run = 0; run < kRuns; ++run) times.push_back(run_ms(session));
  for (const headroom::TensorInfo& output : pass.outputs())
    std::printf("%s %s: norm %.6g\n", output.name.c_str(), headroom::to_string(output.shape).c_str(),
                norm(session.output(output.name).floats()));
  std::printf("a run: %.3f ms, median of %d\n", median(times), kRuns);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> given(argv + 1, argv + argc);
  const auto argument = [&](std::size_t i, const char* otherwise) { return i < given.size() ? given[i] : otherwise; };
  try {
    forward(argument(0, "fashion-flux"), argument(1, "lossless"), argument(2, "auto"));
  } catch (const headroom::Error& error) {
    std::fprintf(stderr, "forward: %s\n", error.what());
    return static_cast<int>(error.kind());
  }
  return 0;
}
