#include "run/export_model.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/files/leftovers.hpp"
#include "base/tensors/host_tensor.hpp"
#include "base/tensors/pack_blocks.hpp"
#include "base/text/json.hpp"
#include "base/text/printable.hpp"
#include "io/gguf_writer.hpp"
#include "io/safetensors.hpp"
#include "models/transformers/flux.hpp"
#include "models/transformers/qwen_image.hpp"
#include "models/transformers/z_image.hpp"
#include "models/unets/unet2d_condition.hpp"
#include "run/copy_folder.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The library of a class, as a model_index.json names it: a config.json of diffusers has a "_class_name".
std::string library_of(const json& config) { return config.contains("_class_name") ? "diffusers" : "transformers"; }

std::string class_of_config(const json& config) {
  return config.contains("_class_name") ? config.at("_class_name").get<std::string>()
                                        : config.at("architectures").at(0).get<std::string>();
}

/// The scale of a matrix in 8-bit floats, or of the activations that it is multiplied with.
bool is_scale(const TensorSpec& tensor) {
  return tensor.name.ends_with(".weight_scale") || tensor.name.ends_with(".input_scale");
}

DType written_dtype(const Checkpoint& checkpoint, const TensorSpec& tensor) {
  const bool is_narrow_float = is_float(tensor.dtype) && size_of(tensor.dtype) == 1;
  return is_narrow_float || checkpoint.block_format(tensor.name) != nullptr ? DType::kBF16 : tensor.dtype;
}

/// Older files hold projections of attention as 1x1 convolutions, [n, k, 1, 1], which diffusers takes as matrices
/// alone. Those around a U-Net's transformer are convolutions, unless the configuration says otherwise.
Shape written_shape(const json& config, const TensorSpec& tensor) {
  const Shape& shape = tensor.shape;
  if (shape.rank() != 4 || shape[2] != 1 || shape[3] != 1) return shape;
  const auto has = [&](std::string_view part) { return tensor.name.find(part) != std::string::npos; };
  const bool is_around = has(".proj_in.") || has(".proj_out.");
  const bool is_matrix = has(".to_") || (is_around && config.value("use_linear_projection", false));
  return is_matrix ? Shape{shape[0], shape[1]} : shape;
}

std::vector<TensorSpec> written_tensors(const Component& component) {
  std::vector<TensorSpec> written;
  for (const TensorSpec& tensor : component.checkpoint.tensors())
    if (!is_scale(tensor))
      written.push_back(
          {tensor.name, written_dtype(component.checkpoint, tensor), written_shape(component.config, tensor)});
  return written;
}

/// A tensor as it is written, multiplied by its scale if it has one.
HostTensor written_value(const Checkpoint& checkpoint, const TensorSpec& written) {
  const HostTensor stored = checkpoint.read(written.name);
  if (stored.dtype() == written.dtype) return stored;
  HostTensor value = convert(stored, DType::kF32);
  if (const std::string scale_name = written.name + "_scale"; checkpoint.has(scale_name)) {
    const float scale = checkpoint.read(scale_name).as<float>()[0];
    for (float& element : value.as<float>()) element *= scale;
  }
  return convert(value, written.dtype);
}

/// Writes networks into folders and counts tensors.
class FolderExport {
 public:
  FolderExport(std::size_t total, const ExportObserver& observer) : total_(total), observer_(observer) {}

  void add_network(const Component& component, const fs::path& folder) {
    fs::create_directories(folder);
    const bool is_of_diffusers = component.config.contains("_class_name");
    const std::vector<TensorSpec> written = written_tensors(component);
    SafetensorsWriter writer(folder / (is_of_diffusers ? "diffusion_pytorch_model.safetensors" : "model.safetensors"),
                             written, {{"format", "pt"}});
    for (const TensorSpec& tensor : written) {
      writer.write(tensor.name, written_value(component.checkpoint, tensor).bytes());
      component.checkpoint.release(tensor.name);
      bytes_ += tensor.size_bytes();
      if (observer_) observer_(++done_, total_);
    }
    writer.commit();
    write_json(folder / "config.json", component.config);
  }

  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::size_t total_, done_ = 0;
  const ExportObserver& observer_;
  std::uint64_t bytes_ = 0;
};

OpenOptions own_options(const OpenOptions& options, const SingleFile& file, const SingleFile::Network& network) {
  return options.for_part(network.role, file.family() == nullptr || network.role == file.family()->denoiser);
}

/// The class of a family's tokenizer, as a model_index.json names it.
std::string_view tokenizer_class(const ModelFamily& family, std::string_view role) {
  if (!family.language_class.empty()) return "Qwen2Tokenizer";
  return role == "tokenizer_2" && family.denoiser_class == kFluxTransformer ? "T5TokenizerFast" : "CLIPTokenizer";
}

/// The networks that a file's folder gets: those of its pipeline, or the only one.
std::vector<SingleFile::Network> exported_networks(const SingleFile& file) {
  std::vector<SingleFile::Network> networks;
  for (const SingleFile::Network& network : file.networks())
    if (file.family() == nullptr || !network.role.empty()) networks.push_back(network);
  if (networks.empty() || (file.family() == nullptr && networks.size() != 1)) file.fail_without_network("network");
  return networks;
}

}  // namespace

std::size_t count_tensors(const SingleFile& file, const OpenOptions& options) {
  std::size_t count = 0;
  for (const SingleFile::Network& network : exported_networks(file))
    count += written_tensors(file.component(network, own_options(options, file, network))).size();
  return count;
}

ExportedFolder export_folder(const SingleFile& file, const OpenOptions& options, const fs::path& out,
                             const ExportObserver& observer) {
  ExportedFolder exported;
  FolderExport writer(count_tensors(file, options), observer);
  try {
    if (fs::exists(fs::symlink_status(out))) fail("{} exists already; convert writes a new folder", out.native());
    PartialFolder folder(out);
    const std::vector<SingleFile::Network> networks = exported_networks(file);
    if (file.family() == nullptr) {
      writer.add_network(file.component(networks.front(), own_options(options, file, networks.front())), folder.path());
      exported.parts.push_back(networks.front().class_name);
    } else {
      json index = {{"_class_name", file.family()->pipeline}};
      for (const SingleFile::Network& network : networks) {
        const Component component = file.component(network, own_options(options, file, network));
        writer.add_network(component, folder.path() / network.role);
        index[network.role] = {library_of(component.config), class_of_config(component.config)};
        exported.parts.push_back(network.role);
      }
      for (const auto& [role, path] : options.parts) {
        if (!role.starts_with("tokenizer")) continue;
        if (!is_folder(path)) fail("--part {}={}: there is no such folder of a tokenizer", role, path);
        fs::create_directories(folder.path() / role);
        FolderCopy(path, folder.path() / role).copy(path, folder.path() / role, [](const std::string&) {
          return false;
        });
        index[role] = {"transformers", tokenizer_class(*file.family(), role)};
        exported.parts.push_back(role);
      }
      const json scheduler = file.scheduler();
      fs::create_directories(folder.path() / "scheduler");
      write_json(folder.path() / "scheduler" / "scheduler_config.json", scheduler);
      index["scheduler"] = {"diffusers", scheduler.at("_class_name")};
      exported.parts.emplace_back("scheduler");
      write_json(folder.path() / "model_index.json", index);
    }
    folder.commit();
  } catch (const fs::filesystem_error& error) {
    fail("cannot write {}: {}", out.native(), reason_not_written(error.code().value(), out, 0));
  }
  exported.bytes = writer.bytes();
  return exported;
}

namespace {

/// `general.architecture` of a class, as ComfyUI-GGUF and stable-diffusion.cpp know it; empty if there is none.
std::string architecture_of(const Component& component) {
  if (component.kind->name == kFluxTransformer) return "flux";
  if (component.kind->name == kQwenImageTransformer) return "qwen_image";
  if (component.kind->name == kZImageTransformer) return "lumina2";
  if (component.kind->name != kUNet2DCondition) return {};
  return parse_unet2d_condition_config(component.config).has_text_time ? "sdxl" : "sd1";
}

const BlockFormat* plain_format(DType dtype) {
  if (dtype == DType::kBF16) return find_block_format("BF16");
  if (dtype == DType::kF16) return find_block_format("F16");
  return find_block_format("F32");
}

/// The format that a tensor is written in.
const BlockFormat* format_for(const TensorSpec& tensor, const BlockFormat& wanted) {
  const BlockFormat& small = *find_block_format("Q8_0");
  const bool is_vector = tensor.shape.rank() <= 1 || (tensor.shape.rank() == 2 && tensor.shape[0] == 1);
  if (is_vector) return find_block_format("F32");
  if (tensor.shape.rank() != 2) return plain_format(tensor.dtype);
  for (const BlockFormat* const format : {&wanted, &small})
    if (tensor.shape[1] % format->elements == 0) return format;
  return plain_format(tensor.dtype);
}

}  // namespace

namespace {

/// The names of a folder's tensors in a GGUF file: for U-Nets those of their authors, by which such files are read.
/// Those of diffusers may have more than the 63 bytes that ggml takes.
class GgufNames {
 public:
  explicit GgufNames(const Component& component) {
    if (component.kind->name == kUNet2DCondition) aliases_ = component.kind->adapters.aliases(component.config);
    for (const ModuleAlias& alias : aliases_) by_module_.emplace(alias.modules.front(), &alias);
  }
  [[nodiscard]] std::string of(const std::string& param) const {
    const std::size_t dot = std::min(param.rfind('.'), param.size());
    const auto found = by_module_.find(param.substr(0, dot));
    if (found == by_module_.end()) return param;
    const ModuleAlias& alias = *found->second;
    return alias.name + std::string(param.substr(dot) == ".weight" ? alias.weight : alias.bias);
  }

 private:
  std::vector<ModuleAlias> aliases_;  // each of one module
  std::map<std::string, const ModuleAlias*> by_module_;
};

}  // namespace

ExportedGguf export_gguf(const Component& component, const SingleFile* file, const BlockFormat& format,
                         const fs::path& out, const ExportObserver& observer) {
  HR_CHECK(can_pack(format));
  const std::string architecture = architecture_of(component);
  if (architecture.empty())
    fail(
        "{} is a {}, for which GGUF files have no architecture: --gguf writes transformers of FLUX.1, Qwen-Image and "
        "Z-Image and U-Nets of Stable Diffusion",
        component.name, component.kind->name);
  // A single file's own tensors and names, without their prefix; else those of the folder.
  const SingleFile::Network* const network =
      file == nullptr || file->family() == nullptr ? nullptr : file->find(file->family()->denoiser);
  std::vector<TensorSpec> read;         // of the source
  std::vector<GgufTensorSpec> written;  // each of `read`
  const auto add = [&](std::string name, const TensorSpec& tensor) {
    if (!is_float(tensor.dtype) || size_of(tensor.dtype) == 1)
      fail("{} is quantized already: {} is {}; --gguf takes f32, f16, bf16 and GGUF files", component.name,
           printable_name(tensor.name), tensor.dtype);
    written.push_back({std::move(name), format_for(tensor, format), tensor.shape});
    read.push_back(tensor);
  };
  if (network != nullptr) {
    for (const auto& [name, tensor] : file->tensors(*network)) add(name, tensor);
  } else {
    const GgufNames names(component);
    for (const TensorSpec& tensor : component.checkpoint.tensors()) add(names.of(tensor.name), tensor);
  }
  ExportedGguf exported{.tensors = written.size()};
  GgufWriter writer(out, written,
                    {{"general.architecture", architecture},
                     {"general.name", component.name},
                     {"general.quantization_version", std::uint32_t{2}}});
  for (std::size_t t = 0; t < written.size(); ++t) {
    const GgufTensorSpec& to = written[t];
    const HostTensor value =
        network != nullptr ? file->source().read(read[t]) : component.checkpoint.read(read[t].name);
    if (to.format->is_packed()) {
      std::vector<std::byte> blocks(to.size_bytes());
      const HostTensor values = convert(value, DType::kF32);
      const PackingLoss loss = pack_blocks(*to.format, values.as<float>(), blocks);
      if (loss.below_scale > 0) exported.lossy.push_back(to.name);
      writer.write(to.name, blocks);
      ++exported.packed;
    } else {
      const HostTensor values = to.format->name == "F32" ? convert(value, DType::kF32) : value;
      writer.write(to.name, values.bytes());
    }
    if (network != nullptr)
      file->source().release(read[t]);
    else
      component.checkpoint.release(read[t].name);
    exported.bytes += to.size_bytes();
    if (observer) observer(t + 1, written.size());
  }
  writer.commit();
  return exported;
}

}  // namespace headroom
