#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/network_family.hpp"
#include "io/tensor_source.hpp"
#include "models/named_shapes.hpp"
#include "run/component.hpp"
#include "run/model_family.hpp"

namespace headroom {

/// A safetensors or GGUF file with networks in their authors' names and without configurations: a denoiser alone or
/// with its autoencoder and text encoders, or one of these. Configurations are inferred from names and shapes, and
/// completed by the family (run/model_family.hpp). The networks' tensors are views of the file's.
class SingleFile {
 public:
  /// Throws Error for a broken file, one of another format, and one that another library quantized.
  [[nodiscard]] static SingleFile open(const std::filesystem::path& path);
  /// The networks of a source, with a path for messages.
  [[nodiscard]] static SingleFile of(std::filesystem::path path, std::shared_ptr<TensorSource> source) {
    return {std::move(path), std::move(source)};
  }

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// The name of its model: the file's name without its extension.
  [[nodiscard]] std::string name() const { return path_.stem().string(); }

  /// A network that can be opened.
  struct Network {
    NetworkPart part;
    std::string role;        ///< its part of the family's pipeline; empty if it has none
    std::string class_name;  ///< its class there
    const ModelFamily* family = nullptr;
  };
  [[nodiscard]] std::span<const Network> networks() const noexcept { return networks_; }
  /// The network of a part; null if there is none.
  [[nodiscard]] const Network* find(std::string_view role) const;
  /// The network of a part of another pipeline, whose class is given: the only one in the file, or that of the part.
  /// Throws Error if the file has none.
  [[nodiscard]] Network network_for(std::string_view role, std::string_view pipeline) const;
  /// The tensors of a network as the file has them, by their names after its prefix, and the source that reads them.
  [[nodiscard]] const std::map<std::string, TensorSpec, std::less<>>& tensors(const Network& network) const {
    return tensors_.at(network.part.prefix);
  }
  [[nodiscard]] TensorSource& source() const noexcept { return *source_; }
  /// The family of its denoiser; null if there is no denoiser.
  [[nodiscard]] const ModelFamily* family() const noexcept { return family_; }
  /// The scheduler_config.json of the denoiser's family, with what the file tells about it.
  [[nodiscard]] nlohmann::json scheduler() const;

  /// A configuration, and the source of each of its values.
  struct InferredConfig {
    nlohmann::json values;
    std::map<std::string, std::string> sources;  ///< "names and shapes", "SDXL", "--config"
  };
  /// Throws Error if names and shapes are not those of the class, if a value is neither in the file nor given, and for
  /// a given value that the class does not have.
  [[nodiscard]] InferredConfig infer(const Network& network, const OpenOptions& options) const;
  /// The names in the file that the network has under its prefix and does not read.
  [[nodiscard]] std::vector<std::string> unread(const Network& network, const OpenOptions& options) const;
  /// Throws Error as open_component() does.
  [[nodiscard]] Component component(const Network& network, const OpenOptions& options) const;
  /// Throws Error that says what the file holds instead of what is wanted, such as a "network".
  [[noreturn]] void fail_without_network(std::string_view wanted) const;

 private:
  SingleFile(std::filesystem::path path, std::shared_ptr<TensorSource> source);
  class Reader;

  /// Throws Error with a sentence for each kind of difference from the network's params.
  void require_all(const Network& network, const Reader& reader, const nlohmann::json& config,
                   const std::string& where) const;

  [[nodiscard]] const NamedShapes& shapes_of(const Network& network) const { return shapes_.at(network.part.prefix); }

  std::filesystem::path path_;
  std::shared_ptr<TensorSource> source_;
  std::map<std::string, std::map<std::string, TensorSpec, std::less<>>> tensors_;  // by prefix, then name after it
  std::map<std::string, NamedShapes> shapes_;                                      // by prefix
  std::vector<NetworkPart> parts_;
  std::vector<Network> networks_;
  const ModelFamily* family_ = nullptr;
};

/// The network of a file: the denoiser, or else the only one. For a part of a pipeline of a class, that part.
[[nodiscard]] Component open_single_file(const std::filesystem::path& path, std::string_view role,
                                         const OpenOptions& options, std::string_view pipeline = {});

}  // namespace headroom
