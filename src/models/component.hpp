#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/params.hpp"

namespace headroom {

/// Extents of the tensors that a pass is given, by name.
using InputShapes = std::map<std::string, Shape, std::less<>>;

/// How large the images of a pass are, in pixels, where no tensors say so.
struct PassSize {
  std::int64_t batch = 1;
  std::int64_t height = 1024;
  std::int64_t width = 1024;
};

/// One thing that a component does.
struct ComponentPass {
  std::string_view name;                      ///< "decode"
  std::vector<std::string_view> inputs = {};  ///< that it needs, each f32
  /// What it is given for images of that size. Throws a usage Error for one that it cannot have.
  InputShapes (*shapes)(const nlohmann::json& config, const PassSize& size);
  /// Throws Error for inputs of the wrong rank or extents.
  Graph (*build)(const nlohmann::json& config, const InputShapes& given, const ParamSource& params);
};

/// What is known of a class of networks: a row of the registry.
struct ComponentClass {
  std::string_view name;              ///< the `_class_name` of its config.json
  std::vector<ComponentPass> passes;  ///< the first is meant where none is named
  /// A configuration that has a name of its own and ships without a checkpoint.
  std::string_view shipped_name = {};
  nlohmann::json (*shipped_config)() = nullptr;
};

/// Networks beside FLUX's transformer. Another is a stem in this folder and a row here.
[[nodiscard]] std::span<const ComponentClass> component_classes();

/// The pass of that name; throws a usage Error that lists the passes there are.
[[nodiscard]] const ComponentPass& pass_named(const ComponentClass& component, std::string_view name);
/// The first whose inputs are all given; throws Error that says what each needs.
[[nodiscard]] const ComponentPass& pass_for(const ComponentClass& component, const InputShapes& given);

}  // namespace headroom
