#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "api/impl.hpp"
#include "base/files/file.hpp"
#include "base/test_paths.hpp"
#include "io/safetensors.hpp"

namespace headroom::v1 {
namespace {

TensorView view(const HostTensor& tensor) {
  return {.dtype = outer(tensor.dtype()), .shape = outer(tensor.shape()), .bytes = tensor.bytes()};
}

TEST(GoldenTest, ANetworkGivesDiffusersNumbers) {
  const std::string folder = std::string(kSourceDir) + "/tests/goldens/flux/tiny-guidance";
  const SafetensorsFile golden = SafetensorsFile::open(folder + "/golden.safetensors");
  const Component network(Device("cpu", 2), folder);
  Shapes shapes;
  for (const auto& [name, entry] : golden.entries())
    if (name != "sample") shapes.emplace(name, outer(entry.shape));
  Session session(network.compile("forward", shapes, "lossless"));
  for (const TensorInfo& input : session.pass().inputs()) {
    const HostTensor tensor = convert(golden.read(input.name), inner(input.dtype));
    session.set_input(input.name, view(tensor));
  }
  session.run();
  EXPECT_LT(relative_l2(session.output("sample"), view(golden.read("sample"))), 5e-6);
}

TEST(GoldenTest, WeightsInMemoryAreThoseOfTheFile) {
  const std::string folder = std::string(kSourceDir) + "/tests/goldens/flux/tiny-guidance";
  const auto file =
      std::make_shared<SafetensorsFile>(SafetensorsFile::open(folder + "/diffusion_pytorch_model.safetensors"));
  NetworkInMemory network{.name = "own", .config = read_file(folder + "/config.json"), .owner = file};
  for (const auto& [name, entry] : file->entries())
    network.weights[name] = {.dtype = outer(entry.dtype), .shape = outer(entry.shape), .bytes = file->bytes(name)};
  const auto sample = [](const Component& component) {
    const Shapes shapes = component.input_shapes("forward", {.height = 32, .width = 48, .text_tokens = 3});
    Session session(component.compile("forward", shapes, "lossless"));
    for (const TensorInfo& input : session.pass().inputs()) {
      Tensor ramp(input.dtype, input.shape);
      std::ranges::generate(ramp.floats(), [i = 0]() mutable { return std::sin(static_cast<float>(i++)); });
      session.set_input(input.name, ramp);
    }
    session.run();
    return session.output("sample");
  };
  const Device device("cpu", 2);
  const Tensor expected = sample(Component(device, folder));
  EXPECT_EQ(relative_l2(sample(Component(device, network)), expected), 0);
  // As if they lay on the device, and freed or moved as soon as they are loaded.
  NetworkInMemory given = network;
  given.on_device = true;
  std::map<std::string, int> loaded;
  given.loaded = [&](const std::string& name) {
    ++loaded[name];
    return std::optional<TensorView>();
  };
  const Component freed(device, given);
  EXPECT_EQ(relative_l2(sample(freed), expected), 0);
  EXPECT_EQ(loaded.size(), network.weights.size());
  EXPECT_EQ(loaded.begin()->second, 1);
  const Shapes shapes = freed.input_shapes("forward", {.height = 32, .width = 48, .text_tokens = 3});
  try {
    const Session session(freed.compile("forward", shapes, "bf16"));
    ADD_FAILURE() << "weights that are gone were read";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("was freed when it had been loaded"));
  }
  given.loaded = [&](const std::string& name) { return std::optional(network.weights.at(name)); };
  const Component moved(device, given);
  EXPECT_EQ(relative_l2(sample(moved), expected), 0);
  EXPECT_NO_THROW(Session(moved.compile("forward", shapes, "bf16")));

  network.weights.begin()->second.bytes = {};
  EXPECT_THROW(Component(device, network), Error) << "too few bytes";
  network.weights.erase(network.weights.begin());
  EXPECT_THROW(Component(device, network), Error) << "a weight is missing";
}

}  // namespace
}  // namespace headroom::v1
