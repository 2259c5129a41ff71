#include "differential/setups.hpp"

#include <algorithm>
#include <array>
#include <functional>

#include "base/switches.hpp"
#include "kernels/core/fusion_rules.hpp"
#include "testing/imaginary_device.hpp"

namespace headroom::differential {
namespace {

constexpr Target kCapableCpu{.device = DeviceKind::kCpu, .cpu_isa = CpuIsa::kAmx, .threads = 2};
constexpr Target kHopper{
    .device = DeviceKind::kCuda, .compute_capability = 90, .multiprocessors = 132, .has_compiler = true};

const SwitchInfo* switch_of(const Pass& pass) {
  const auto found = std::ranges::find(all_switches(), pass.switch_name, &SwitchInfo::name);
  return found == all_switches().end() ? nullptr : &*found;
}

/// Of a switch without a required argument: `cp` makes the graph of one rank, which runs only with the others.
bool is_exact(const Pass& pass) {
  return pass.rewrite_as == nullptr && (switch_of(pass) == nullptr || switch_of(pass)->exact);
}

Target target_of(DeviceKind device) {
  if (device == DeviceKind::kCuda) return kHopper;
  return device == DeviceKind::kCpu ? kCapableCpu : Target{.device = device, .threads = 2};
}

/// A target on which the pass has an effect; a few passes depend on the device.
Target target_of(const Pass& pass, DeviceKind device) {
  const SwitchInfo* info = switch_of(pass);
  return target_of(info != nullptr && info->device ? *info->device : device);
}

PassSet make_set(std::string name, const Target& target, const std::function<bool(const Pass&)>& wants) {
  PassSet set{.name = std::move(name), .passes = {}, .target = target};
  set.target.fusion = &kernel_rules();
  for (const Pass& pass : pipeline()) {
    if (!wants(pass)) continue;
    set.passes.emplace_back(pass.name);
    set.is_exact = set.is_exact && is_exact(pass);
  }
  return set;
}

}  // namespace

std::vector<PassSet> all_pass_sets(DeviceKind device) {
  std::vector<PassSet> sets = {make_set("none", target_of(device), [](const Pass&) { return false; })};
  for (const Pass& alone : pipeline()) {
    if (alone.rewrite_as != nullptr) continue;  // a step cache changes the program of a loop, cp is for several ranks
    sets.push_back(make_set(std::string(alone.name), target_of(alone, device),
                            [&](const Pass& pass) { return pass.name == alone.name; }));
  }
  sets.push_back(make_set("exact-flash", target_of(device),
                          [](const Pass& pass) { return is_exact(pass) && pass.switch_name != "flash"; }));
  const auto with = [&](const char* name, const Target& target, std::initializer_list<std::string_view> switches) {
    sets.push_back(make_set(name, target, [&](const Pass& pass) {
      return is_exact(pass) || std::ranges::find(switches, pass.switch_name) != switches.end();
    }));
  };
  if (device == kImaginary) with("exact-imaginary", target_of(device), {});
  with("exact", kCapableCpu, {});
  with("exact+bf16", kCapableCpu, {"bf16"});
  with("exact+int8", kCapableCpu, {"int8"});
  with("exact+bf16+int8", kCapableCpu, {"bf16", "int8"});
  with("exact-cuda", kHopper, {});
  with("exact+fp16", kHopper, {"fp16"});
  with("exact+tf32", kHopper, {"tf32"});
  with("exact+bf16+fp8", kHopper, {"bf16", "fp8"});
  with("exact+fp8", kHopper, {"fp8"});
  return sets;
}

OptimizeReport run_passes(const PassSet& set, Graph& graph) {
  SwitchSet switches;
  OptimizeOptions options{.disabled = {}, .verify = true};
  for (const Pass& pass : pipeline()) {
    if (std::ranges::find(set.passes, pass.name) == set.passes.end())
      options.disabled.emplace_back(pass.name);
    else if (!pass.switch_name.empty())
      switches = switches.with(SwitchSet::parse(pass.switch_name));
  }
  return optimize(graph, switches, set.target, options);
}

std::span<const PlanSetup> plan_setups(DeviceKind device) {
  static constexpr std::array kCpu = {
      PlanSetup{"eager", {}},
      PlanSetup{"arena", {.arena = true}},
      PlanSetup{"apart", {.arena = true, .outputs_apart = true}},
      PlanSetup{"tile", {.arena = true, .tile = true}},
  };
  static constexpr std::array kCuda = {
      PlanSetup{"eager", {}},
      PlanSetup{"arena", {.arena = true}},
      PlanSetup{"streams", {.arena = true, .lanes = 2}},
      PlanSetup{"graph", {.arena = true, .graph = true}},
      PlanSetup{"eager-graph", {.graph = true}},
      PlanSetup{"streams-graph", {.arena = true, .lanes = 2, .graph = true}},
  };
  static constexpr std::array kOfImaginary = {
      PlanSetup{"eager", {}},
      PlanSetup{"arena", {.arena = true}},
      PlanSetup{"apart", {.arena = true, .outputs_apart = true}},
      PlanSetup{"streams", {.arena = true, .lanes = 2}},
  };
  if (device == kImaginary) return kOfImaginary;
  if (device == DeviceKind::kCpu) return kCpu;
  return kCuda;
}

}  // namespace headroom::differential
