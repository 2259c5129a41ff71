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
#include "models/named_shapes.hpp"
#include "models/params.hpp"

namespace headroom {

/// Extents of the tensors that a pass takes, by name.
using InputShapes = std::map<std::string, Shape, std::less<>>;

/// The size of a pass if no tensors determine it. A class reads the fields that apply to it.
struct PassSize {
  std::int64_t batch = 1;
  std::int64_t height = 1024;  ///< of the image, in pixels
  std::int64_t width = 1024;
  std::int64_t text_tokens = 512;
};

/// One computation that a component offers.
struct ComponentPass {
  std::string_view name;                      ///< "decode"
  std::vector<std::string_view> inputs = {};  ///< required inputs
  /// The input shapes for that size. Throws a usage Error for a size that it does not support.
  InputShapes (*shapes)(const nlohmann::json& config, const PassSize& size);
  /// The graph in f32, over inputs of the dtypes that it declares. It takes those other given inputs that it knows.
  /// Throws Error for inputs of the wrong rank or extents.
  Graph (*build)(const nlohmann::json& config, const InputShapes& given, const ParamSource& params);
};

/// The values that an input may hold: from `low` up to but not including `high`; integers for an integer input.
struct InputRange {
  double low = 0, high = 0;
};

/// A named configuration that is available without a checkpoint.
struct NamedConfig {
  std::string_view name;  ///< "flux-dev"
  std::string_view description;
  nlohmann::json (*config)();
};

/// Properties of a class of networks. Each is defined in the source file of its network, and has a line in
/// component.cpp.
struct ComponentClass {
  std::string_view name;              ///< as in its config.json (config::class_name)
  std::vector<ComponentPass> passes;  ///< the first is the default
  std::vector<NamedConfig> named = {};
  /// Whether a param is the weight of a modulation: a matrix multiplied by one vector per sample, not by tokens, so
  /// that its matmul is bound by memory. `convert` may store it in 8 bits.
  bool (*is_modulation)(std::string_view param) = nullptr;
  /// The range of an input, by its name; nothing if it may be any number, around 0. Null if that holds for all
  /// inputs.
  std::optional<InputRange> (*range)(const nlohmann::json& config, std::string_view input) = nullptr;
  /// For a network that reads text and no images: the default number of tokens.
  std::int64_t (*text_tokens)(const nlohmann::json& config) = nullptr;
  /// For a network on images: its default size of a pass. If null, the defaults of PassSize apply.
  PassSize (*own_size)(const nlohmann::json& config) = nullptr;
  /// Whether a tensor that no pass reads may be in a checkpoint. Others must not.
  bool (*is_unread)(std::string_view tensor) = nullptr;
  /// The configuration for a name such as "flux-512x4+8"; nothing for other names.
  std::optional<nlohmann::json> (*sized)(const std::string& name) = nullptr;
  /// The names of its modules in adapter files and in its authors' checkpoints; empty if there are no such files.
  AdapterNames adapters = {};
  /// The configuration of a checkpoint in its authors' names, as far as names and shapes tell it. A value is null that
  /// they do not tell and that has no default. Null if it is not opened from such a file.
  nlohmann::json (*infer)(const NamedShapes& shapes) = nullptr;
};

[[nodiscard]] std::span<const ComponentClass> component_classes();
/// The class of a config.json. Throws Error that lists the known classes.
[[nodiscard]] const ComponentClass& class_of(const nlohmann::json& config);

/// The pass of that name. Throws a usage Error that lists the passes.
[[nodiscard]] const ComponentPass& pass_named(const ComponentClass& component, std::string_view name);
/// The first pass whose required inputs are all given. Throws Error that lists the inputs that each needs.
[[nodiscard]] const ComponentPass& pass_for(const ComponentClass& component, const InputShapes& given);

/// The number of parts of `of_part` pixels along `pixels` pixels, the side of an image that is given by `option`.
/// Throws a usage Error if they do not divide it.
[[nodiscard]] std::int64_t parts_along(std::string_view option, std::int64_t pixels, std::int64_t of_part);

/// An extent of an input: that number, or any positive number if the value is 0.
struct Extent {
  std::string_view name;
  std::int64_t value = 0;
};
/// The given shape of `name`. Throws Error if its extents differ from `expected`, or if it is missing.
[[nodiscard]] const Shape& require_shape(const InputShapes& given, std::string_view name,
                                         std::initializer_list<Extent> expected);

}  // namespace headroom
