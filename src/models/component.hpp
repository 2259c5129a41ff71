#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/adapter_names.hpp"
#include "models/params.hpp"

namespace headroom {

/// Extents of the tensors that a pass is given, by name.
using InputShapes = std::map<std::string, Shape, std::less<>>;

/// How large a pass is where no tensors say so. A class reads what it works on.
struct PassSize {
  std::int64_t batch = 1;
  std::int64_t height = 1024;  ///< of the image, in pixels
  std::int64_t width = 1024;
  std::int64_t text_tokens = 512;
};

/// One thing that a component does.
struct ComponentPass {
  std::string_view name;                      ///< "decode"
  std::vector<std::string_view> inputs = {};  ///< that it cannot do without
  /// What it is given for that size. Throws a usage Error for one that it cannot have.
  InputShapes (*shapes)(const nlohmann::json& config, const PassSize& size);
  /// In f32, over inputs of the dtypes that it declares them with; it takes others of those given where it knows them.
  /// Throws Error for inputs of the wrong rank or extents.
  Graph (*build)(const nlohmann::json& config, const InputShapes& given, const ParamSource& params);
};

/// The numbers that an input may hold: from `low` up to `high`, which is none of them; whole ones where it is of
/// integers.
struct InputRange {
  double low = 0, high = 0;
};

/// A configuration that has a name of its own and ships without a checkpoint.
struct NamedConfig {
  std::string_view name;  ///< "flux-dev"
  std::string_view description;
  nlohmann::json (*config)();
};

/// What is known of a class of networks. Each is stated in the stem of its network, and has a line in component.cpp.
struct ComponentClass {
  std::string_view name;              ///< as its config.json states it (config::class_name)
  std::vector<ComponentPass> passes;  ///< the first is meant where none is named
  std::vector<NamedConfig> named = {};
  /// Whether a param is the weight of a modulation: a matrix that meets one vector a sample, not tokens, so that its
  /// product is bound by memory. `convert` may store it in 8 bits.
  bool (*is_modulation)(std::string_view param) = nullptr;
  /// What an input may hold, by its name; nothing where that is any number, around 0. Without, all hold such.
  std::optional<InputRange> (*range)(const nlohmann::json& config, std::string_view input) = nullptr;
  /// Of a network that reads text and no images: how many tokens, where nobody says.
  std::int64_t (*text_tokens)(const nlohmann::json& config) = nullptr;
  /// Of a network that works on images: how large a pass is, where nobody says. Without, it is PassSize's.
  PassSize (*own_size)(const nlohmann::json& config) = nullptr;
  /// Whether a tensor that no pass reads may lie in a checkpoint. Others must not.
  bool (*is_unread)(std::string_view tensor) = nullptr;
  /// The configuration that a name such as "flux-512x4+8" states; nothing for other names.
  std::optional<nlohmann::json> (*sized)(const std::string& name) = nullptr;
  /// How files of adapters name its modules; none where there are no such files.
  AdapterNames adapters = {};
};

[[nodiscard]] std::span<const ComponentClass> component_classes();
/// The class that a config.json is of. Throws Error that lists the classes there are.
[[nodiscard]] const ComponentClass& class_of(const nlohmann::json& config);

/// The pass of that name; throws a usage Error that lists the passes there are.
[[nodiscard]] const ComponentPass& pass_named(const ComponentClass& component, std::string_view name);
/// The first whose inputs are all given; throws Error that says what each needs.
[[nodiscard]] const ComponentPass& pass_for(const ComponentClass& component, const InputShapes& given);

/// How many parts of so many pixels lie along a side of an image, which an option says. Throws a usage Error where they do not
/// divide it.
[[nodiscard]] std::int64_t parts_along(std::string_view option, std::int64_t pixels, std::int64_t of_part);

/// An extent of an input: that many, or any number from 1 on where the value is 0.
struct Extent {
  std::string_view name;
  std::int64_t value = 0;
};
/// The shape that is given for `name`. Throws Error where its extents are others, or it is not there.
[[nodiscard]] const Shape& require_shape(const InputShapes& given, std::string_view name,
                                         std::initializer_list<Extent> expected);

}  // namespace headroom
