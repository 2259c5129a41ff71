#include "run/forward_pass.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/backend.hpp"
#include "ir/builder.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kIds = 12;

/// A network that returns its input.
const ComponentClass kEcho = {
    .name = "Echo",
    .passes = {{"echo",
                {"ids", "pixels", "numbers"},
                [](const nlohmann::json&, const PassSize& size) -> InputShapes {
                  const Shape shape{size.batch, size.text_tokens};
                  return {{"ids", shape}, {"pixels", shape}, {"numbers", shape}};
                },
                [](const nlohmann::json&, const InputShapes& given, const ParamSource&) {
                  Graph graph("echo");
                  for (const auto& [name, shape] : given) {
                    const DType dtype = name == "ids" ? DType::kI32 : DType::kF32;
                    graph.add_output(name, graph.add_input(name, {.dtype = dtype, .shape = shape}));
                  }
                  return graph;
                }}},
    .range = [](const nlohmann::json&, std::string_view input) -> std::optional<InputRange> {
      if (input == "ids") return InputRange{0, kIds};
      if (input == "pixels") return InputRange{-1, 1};
      return std::nullopt;
    },
    .text_tokens = [](const nlohmann::json&) { return std::int64_t{1}; },
};

TEST(ForwardPass, FillsInputsWithinTheRangesOfTheirClass) {
  const Component component{.name = "echo",
                            .kind = &kEcho,
                            .config = nlohmann::json::object(),
                            .checkpoint = Checkpoint::random(nlohmann::json::object(), {}, 0),
                            .folder = {}};
  const ForwardPass pass = make_forward_pass(component, kEcho.passes.front(), {.batch = 4, .text_tokens = 200});
  EXPECT_EQ(pass.request, (nlohmann::json{{"pass", "echo"}, {"batch", 4}, {"text_tokens", 200}}));
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu);
  const Compiled compiled = compile(pass, {}, backend->properties().target);
  Session session(compiled.program, *backend);
  pass.set_inputs(session);
  session.run();
  const auto bounds = [&](const char* name) {
    const HostTensor tensor = session.output(name);
    std::pair<double, double> found{tensor.at(0), tensor.at(0)};
    for (std::int64_t i = 0; i < tensor.numel(); ++i)
      found = {std::min(found.first, tensor.at(i)), std::max(found.second, tensor.at(i))};
    return found;
  };
  EXPECT_EQ(bounds("ids"), std::pair(0.0, static_cast<double>(kIds - 1))) << "all of them, of 800";
  const auto [darkest, brightest] = bounds("pixels");
  EXPECT_GE(darkest, -1);
  EXPECT_LT(darkest, -0.9);
  EXPECT_LT(brightest, 1);
  EXPECT_GT(brightest, 0.9);
  EXPECT_GT(bounds("numbers").second, 2) << "normal";
}

}  // namespace
}  // namespace headroom
