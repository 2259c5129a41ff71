#include "networks.hpp"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>

#include "tensor.hpp"
#include "whole.hpp"

namespace headroom::python {

using namespace nb::literals;

PyDevice device_of(const nb::object& device) {
  if (nb::isinstance<PyDevice>(device)) return nb::cast<PyDevice>(device);
  return nb::cast<PyDevice>(nb::type<PyDevice>()(device));
}

ComponentOptions options_of(std::optional<std::uint64_t> random_weights, const std::optional<std::string>& baseline) {
  ComponentOptions options{.random_seed = random_weights};
  if (baseline) options.baseline = dtype_named(*baseline);
  return options;
}

namespace {

using PySession = Owned<Session>;

/// A compiled pass with its device, which never changes.
struct PyPass {
  CompiledPass pass;
  PyDevice device;
};

PyDevice open_device(const std::string& name, int threads) {
  if (name != "cpu") nb::module_::import_("headroom._cuda").attr("load_libraries")();
  const nb::gil_scoped_release without_lock;
  require_own_process();
  return {Device(name, threads), std::make_shared<DeviceUse>()};
}

nb::tuple shape_of(const Shape& shape) { return nb::tuple(nb::cast(shape)); }

nb::dict to_dict(const Shapes& shapes) {
  nb::dict result;
  for (const auto& [name, shape] : shapes) result[name.c_str()] = shape_of(shape);
  return result;
}

Shapes shapes_of(const std::map<std::string, nb::sequence>& given) {
  Shapes shapes;
  for (const auto& [name, extents] : given) {
    Shape& shape = shapes[name];
    for (const nb::handle extent : extents)
      shape.push_back(to_whole<std::int64_t>(extent, ("an extent of '" + name + "'").c_str()));
  }
  return shapes;
}

/// Lets Python free a weight that has been loaded, or move it to a tensor that it returns. The component holds
/// `owners` as long as it may call this.
std::function<std::optional<TensorView>(const std::string&)> observer_of(const nb::object& loaded,
                                                                         std::map<std::string, PyTensor>& owners) {
  // Dropped under the global lock, which the thread that drops the component need not have.
  const std::shared_ptr<nb::object> callback(new nb::object(loaded), [](nb::object* object) {
    if (Py_IsInitialized() == 0) return;
    const nb::gil_scoped_acquire with_lock;
    delete object;
  });
  return [callback, &owners](const std::string& name) -> std::optional<TensorView> {
    const nb::gil_scoped_acquire with_lock;
    owners.erase(name);
    const nb::object moved = (*callback)(name);
    if (moved.is_none()) return std::nullopt;
    return owners.emplace(name, nb::cast<PyTensor>(moved)).first->second.view();
  };
}

DeviceMemory memory_of(const PyTensor& tensor) { return {tensor.data(), tensor.bytes()}; }

void bind_device(nb::module_& module) {
  nb::class_<PyDevice>(module, "Device", "A CPU or GPU that runs networks.")
      .def(
          "__init__",
          [](PyDevice* self, const std::string& name, Whole<int, "threads"> threads) {
            new (self) PyDevice(open_device(name, threads));
          },
          "name"_a = "auto", nb::kw_only(), "threads"_a = 0,
          "`name` is 'cpu', 'cuda' (the first GPU), 'cuda:N' or 'auto': the first usable GPU, otherwise the CPU. "
          "`threads` applies to a CPU; 0 uses all of the process.")
      .def_prop_ro(
          "name", [](const PyDevice& self) { return self.device.name(); }, "'cpu', 'cuda:0'")
      .def_prop_ro(
          "description", [](const PyDevice& self) { return in_turn(self, [&] { return self.device.description(); }); },
          "The vendor's name: 'NVIDIA H200'.")
      .def_prop_ro(
          "threads", [](const PyDevice& self) { return in_turn(self, [&] { return self.device.threads(); }); },
          "CPU threads that kernels use; 1 for a GPU.")
      .def_prop_ro(
          "alignment", [](const PyDevice& self) { return self.device.alignment(); },
          "Of memory that a session may bind, in bytes.")
      .def(
          "memory",
          [](const PyDevice& self) {
            const MemoryUse use = in_turn(self, [&] { return self.device.memory(); });
            nb::dict result;
            result["installed"] = use.installed;
            result["available"] = use.available;
            result["used"] = use.used;
            result["peak"] = use.peak;
            return result;
          },
          nb::sig("def memory(self) -> dict[str, int]"),
          "Bytes: 'installed', 'available' (not in use by any process), 'used' by this device's objects, their 'peak'.")
      .def(
          "order",
          [](const PyDevice& self, Whole<std::intptr_t, "before"> before, Whole<std::intptr_t, "after"> after) {
            const std::intptr_t first = before, then = after;
            in_turn(self, [&] { self.device.order(reinterpret_cast<void*>(first), reinterpret_cast<void*>(then)); });
          },
          "before"_a, "after"_a,
          "On a GPU: work submitted to the stream `after` (a cudaStream_t) from now on runs after the work submitted "
          "to "
          "`before` so far. The host does not wait.")
      .def("__repr__", [](const PyDevice& self) { return "headroom.Device('" + self.device.name() + "')"; });
}

void bind_component(nb::module_& module) {
  nb::class_<PyComponent>(module, "Component",
                          "One network of a checkpoint folder (a transformer, an autoencoder) on a device.")
      .def(
          "__init__",
          [](PyComponent* self, const std::filesystem::path& model, const nb::object& device,
             OptionalWhole<std::uint64_t, "random_weights"> random_weights,
             const std::optional<std::string>& baseline) {
            const PyDevice on = device_of(device);
            const ComponentOptions options = options_of(random_weights, baseline);
            new (self) PyComponent("component", on, [&] { return Component(on.device, model.string(), options); });
          },
          "model"_a, "device"_a = "auto", nb::kw_only(), "random_weights"_a = nb::none(), "baseline"_a = nb::none(),
          nb::sig("def __init__(self, model: str | os.PathLike[str], device: Device | str = 'auto', *, "
                  "random_weights: int | None = None, baseline: str | None = None) -> None"),
          "Opens a name of models(), or a folder with a config.json and safetensors. `random_weights` is a seed of "
          "weights in place of the checkpoint's. `baseline` is the dtype of the baseline: 'f32' or 'bf16'.")
      .def_static(
          "_in_memory",
          [](const std::string& name, const std::string& config, const nb::dict& weights, const nb::object& device,
             const std::optional<std::string>& baseline, bool on_device, const nb::object& loaded) {
            NetworkInMemory network{.name = name, .config = config, .on_device = on_device};
            auto owners = std::make_shared<std::map<std::string, PyTensor>>();
            for (const auto& [key, value] : weights) {
              const auto weight = owners->emplace(nb::cast<std::string>(key), nb::cast<PyTensor>(value)).first;
              network.weights.emplace(weight->first, weight->second.view());
            }
            network.owner = owners;
            if (!loaded.is_none()) network.loaded = observer_of(loaded, *owners);
            const PyDevice on = device_of(device);
            return new PyComponent("component", on, [&] {
              return Component(on.device, std::move(network), options_of(std::nullopt, baseline));
            });
          },
          "name"_a, "config"_a, "weights"_a, "device"_a, "baseline"_a = nb::none(), "on_device"_a = false,
          "loaded"_a = nb::none(),
          nb::sig("def _in_memory(name: str, config: str, weights: dict[str, Tensor], device: Device | str, "
                  "baseline: str | None = None, on_device: bool = False, "
                  "loaded: collections.abc.Callable[[str], Tensor | None] | None = None) -> Component"))
      .def_prop_ro("name", [](const PyComponent& self) { return self.peek().name(); })
      .def_prop_ro(
          "class_name", [](const PyComponent& self) { return self.peek().class_name(); },
          "The class in its config.json: 'AutoencoderKL'.")
      .def_prop_ro("device", [](const PyComponent& self) { return self.device(); })
      .def_prop_ro("parameters",
                   [](PyComponent& self) { return self.call([](Component& c) { return c.parameters(); }); })
      .def_prop_ro(
          "passes",
          [](const PyComponent& self) {
            std::map<std::string, std::vector<std::string>> passes;
            for (const PassInfo& pass : self.peek().passes()) passes.emplace(pass.name, pass.inputs);
            return passes;
          },
          "The functions that it can execute, each with the inputs that it requires.")
      .def(
          "input_shapes",
          [](PyComponent& self, const std::string& name, Whole<std::int64_t, "batch"> batch,
             Whole<std::int64_t, "height"> height, Whole<std::int64_t, "width"> width,
             Whole<std::int64_t, "text_tokens"> text_tokens) {
            const PassSize size{.batch = batch, .height = height, .width = width, .text_tokens = text_tokens};
            return to_dict(self.call([&](Component& component) { return component.input_shapes(name, size); }));
          },
          "name"_a = "forward", nb::kw_only(), "batch"_a = 1, "height"_a = 1024, "width"_a = 1024,
          "text_tokens"_a = 512,
          nb::sig("def input_shapes(self, name: str = 'forward', *, batch: int = 1, height: int = 1024, width: int = "
                  "1024, text_tokens: int = 512) -> dict[str, tuple[int, ...]]"),
          "Shapes of all inputs of a pass for an image of this size in pixels.")
      .def(
          "compile",
          [](PyComponent& self, const std::map<std::string, nb::sequence>& shapes, const std::string& name,
             const std::string& optimize) {
            const Shapes inputs = shapes_of(shapes);
            return PyPass{self.call([&](Component& component) { return component.compile(name, inputs, optimize); }),
                          self.device()};
          },
          "shapes"_a, "name"_a = "forward", nb::kw_only(), "optimize"_a = "lossless",
          nb::sig("def compile(self, shapes: collections.abc.Mapping[str, collections.abc.Sequence[int]], name: str = "
                  "'forward', *, optimize: str = 'lossless') -> Pass"),
          "Optimizes and plans the pass for inputs of these shapes. `optimize` is names and presets of switches "
          "separated by commas, as for the program's --opt: 'lossless', 'flash,fuse,bf16'. No weights are loaded yet.")
      .def_prop_ro(
          "weight_bytes", [](PyComponent& self) { return self.call([](Component& c) { return c.weight_bytes(); }); },
          "Bytes of its weights on the device.")
      .def(
          "keep_weights_of",
          [](PyComponent& self, const PyPass& pass) {
            self.call([&](Component& component) { component.keep_weights_of(pass.pass); });
          },
          "compiled"_a, "Frees the weights that neither a session nor this pass uses.")
      .def("__repr__", [](const PyComponent& self) {
        return "headroom.Component('" + self.peek().name() + "', " + self.peek().class_name() + ", " +
               self.device().device.name() + ")";
      });
}

nb::dict to_dict(const std::vector<TensorInfo>& tensors) {
  nb::dict result;
  for (const TensorInfo& tensor : tensors)
    result[tensor.name.c_str()] =
        nb::make_tuple(nb::str(name_of(tensor.dtype).data(), name_of(tensor.dtype).size()), shape_of(tensor.shape));
  return result;
}

void bind_pass(nb::module_& module) {
  nb::class_<Launch>(module, "Launch", "One kernel launch, or a copy.")
      .def_ro("path", &Launch::path, "The module that it came from: 'transformer_blocks.3.attn.to_q'.")
      .def_ro("op", &Launch::op, "'linear'; 'copy'")
      .def_ro("kernel", &Launch::kernel, "'onednn.linear'; 'copy'")
      .def_ro("implementation", &Launch::implementation, "As the library reports it: 'brgemm:avx512_core_bf16'.")
      .def_ro("flops", &Launch::flops)
      .def_ro("bytes", &Launch::bytes)
      .def("__repr__", [](const Launch& self) { return "headroom.Launch(" + self.path + ", " + self.kernel + ")"; });
  nb::class_<PyPass>(module, "Pass",
                     "A pass of a network for one set of shapes under one set of switches. It holds no device memory.")
      .def_prop_ro("name", [](const PyPass& self) { return self.pass.name(); })
      .def_prop_ro("device", [](const PyPass& self) { return self.device; })
      .def_prop_ro(
          "inputs", [](const PyPass& self) { return to_dict(self.pass.inputs()); },
          nb::sig("def inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]"), "Dtype and shape of each.")
      .def_prop_ro(
          "outputs", [](const PyPass& self) { return to_dict(self.pass.outputs()); },
          nb::sig("def outputs(self) -> dict[str, tuple[str, tuple[int, ...]]]"), "Dtype and shape of each.")
      .def_prop_ro(
          "switches", [](const PyPass& self) { return self.pass.switches(); },
          "The requested switches with presets expanded.")
      .def_prop_ro(
          "applied", [](const PyPass& self) { return self.pass.applied(); },
          "The requested switches that changed something.")
      .def_prop_ro(
          "declined",
          [](const PyPass& self) {
            std::map<std::string, std::string> declined;
            for (const Declined& one : self.pass.declined()) declined.emplace(one.switch_name, one.reason);
            return declined;
          },
          "The requested switches that could not apply, with the reasons.")
      .def_prop_ro(
          "launches", [](const PyPass& self) { return self.pass.launches(); }, "In launch order.")
      .def(
          "memory_need",
          [](const PyPass& self) {
            const MemoryNeed need = in_turn(self.device, [&] { return self.pass.memory_need(); });
            nb::dict result;
            result["weights"] = need.weights;
            result["activations"] = need.activations;
            result["inputs"] = need.inputs;
            result["loading"] = need.loading;
            result["total"] = need.total();
            return result;
          },
          nb::sig("def memory_need(self) -> dict[str, int]"), "Device memory that a session needs, in bytes.")
      .def(
          "plan_text",
          [](const PyPass& self, bool with_rejections) {
            return in_turn(self.device, [&] { return self.pass.plan_text(with_rejections); });
          },
          nb::kw_only(), "with_rejections"_a = false,
          "The plan as `headroom plan` prints it; with_rejections adds the rejected kernels with reasons.")
      .def("__repr__", [](const PyPass& self) {
        return "headroom.Pass(" + self.pass.name() + ", " + std::to_string(self.pass.launches().size()) +
               " launches, " + self.device.device.name() + ")";
      });
}

void bind_session(nb::module_& module) {
  nb::class_<PySession>(module, "_Session")
      .def(
          "__init__",
          [](PySession* self, const PyPass& pass, Whole<std::intptr_t, "stream"> stream) {
            const SessionOptions options{.stream = reinterpret_cast<void*>(static_cast<std::intptr_t>(stream))};
            new (self) PySession("session", pass.device, [&] { return Session(pass.pass, options); });
          },
          "compiled"_a, nb::kw_only(), "stream"_a = 0)
      .def_prop_ro("device", [](const PySession& self) { return self.device(); })
      .def_prop_ro(
          "compiled",
          [](const PySession& self) {
            return PyPass{self.peek().pass(), self.device()};
          },
          "Its pass.")
      .def_prop_ro(
          "stream", [](const PySession& self) { return reinterpret_cast<std::intptr_t>(self.peek().stream()); },
          "The cudaStream_t that runs are submitted to; 0 for a CPU.")
      .def(
          "_set_input",
          [](PySession& self, const std::string& name, const PyTensor& tensor) {
            self.call([&](Session& session) { session.set_input(name, tensor.view()); });
          },
          "name"_a, "tensor"_a)
      .def(
          "_bind_input",
          [](PySession& self, const std::string& name, const PyTensor& tensor) {
            self.call([&](Session& session) { session.bind_input(name, memory_of(tensor)); });
          },
          "name"_a, "tensor"_a)
      .def(
          "_bind_output",
          [](PySession& self, const std::string& name, const PyTensor& tensor) {
            self.call([&](Session& session) { session.bind_output(name, memory_of(tensor)); });
          },
          "name"_a, "tensor"_a)
      .def(
          "_unbind_input",
          [](PySession& self, const std::string& name) {
            self.call([&](Session& session) { session.unbind_input(name); });
          },
          "name"_a)
      .def(
          "_unbind_output",
          [](PySession& self, const std::string& name) {
            self.call([&](Session& session) { session.unbind_output(name); });
          },
          "name"_a)
      .def(
          "run", [](PySession& self) { self.call([](Session& session) { session.run(); }); },
          "Runs the pass and waits for it.")
      .def(
          "submit", [](PySession& self) { self.call([](Session& session) { session.submit(); }); },
          "Submits a run to the stream and returns without waiting for a GPU.")
      .def(
          "wait", [](PySession& self) { self.call([](Session& session) { session.wait(); }); },
          "Waits for all submitted work.")
      .def(
          "output",
          [](PySession& self, const std::string& name) {
            return PyTensor::of(self.call([&](Session& session) { return session.output(name); }));
          },
          "name"_a, "A copy of an output of the last run in host memory.")
      .def(
          "device_output",
          [](PySession& self, const std::string& name) {
            return PyTensor::of(self.call([&](Session& session) { return session.device_output(name); }),
                                self.device());
          },
          "name"_a, "A copy of an output of the last run on the device.")
      .def_prop_ro(
          "copied_bytes",
          [](PySession& self) { return self.call([](Session& session) { return session.copied_bytes(); }); },
          "Bytes of bound outputs that the last run had to copy.");
}

}  // namespace

void bind_networks(nb::module_& module) {
  bind_device(module);
  bind_component(module);
  bind_pass(module);
  bind_session(module);
}

}  // namespace headroom::python
