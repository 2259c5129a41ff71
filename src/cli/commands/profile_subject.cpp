#include "cli/commands/profile_subject.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text/format.hpp"
#include "measure/results/describe.hpp"

namespace headroom {

ProfiledRun ProfileSubject::run() {
  if (is_setup) {
    generator->prepare(images);
    Session& setup = *generator->setup();
    return {setup, [&setup](const IterationObserver& observer) { setup.run(observer); }, /*is_pass=*/true};
  }
  if (generator)
    return {.session = generator->session(),
            .run = [this](const IterationObserver& observer) { static_cast<void>(generator->denoise(observer)); },
            .prepare = [this] { generator->prepare(images); },
            .others = generator->other_sessions()};
  return {*session, [this](const IterationObserver& observer) { session->run(observer); }, /*is_pass=*/true};
}

std::string ProfileSubject::describe_setup() const {
  if (is_setup || !generator || generator->setup() == nullptr) return {};
  const std::span<const StageRun> stages = generator->stages();
  const auto setup = std::ranges::find(stages, kSetupStage, &StageRun::name);
  return fmt::format("before the loop its setup, of {}, takes {}: profile it by --pass {}\n",
                     format_count(std::ssize(generator->setup()->program().steps), "launch"),
                     format_ms(setup->milliseconds), kSetupStage);
}

ProfileSubject prepare_request(const Engine& engine, const RequestOptions& options) {
  ProfileSubject made;
  made.generator = std::make_unique<Generator>(*engine.pipeline, *engine.backend, *engine.weights, options);
  if (made.generator->has_step_cache())
    fail_usage("profile tells where the time of a step goes, and those of a step cache differ: leave it out of {}",
               options.switches.to_string());
  made.images = make_image_requests(*engine.pipeline, 0, made.generator->request().images, /*seed=*/0);
  made.compiled = made.generator->compiled();
  made.work = describe_request(*engine.pipeline, options);
  return made;
}

ProfileSubject prepare_setup(const Engine& engine, const RequestOptions& options) {
  ProfileSubject made = prepare_request(engine, options);
  if (made.generator->setup() == nullptr)
    fail_usage("the loop of {} has no setup under '{}': hoist makes one", engine.pipeline->name(),
               options.switches.to_string());
  made.is_setup = true;
  made.work.request["pass"] = kSetupStage;
  made.series = "setup";
  return made;
}

ProfileSubject prepare_pass(const Engine& engine, const ForwardPass& pass, const SwitchSet& switches) {
  ProfileSubject made;
  made.compiled = compile(pass, switches, engine.backend->properties().target);
  require_fit(made.compiled, pass, switches, *engine.weights, *engine.backend);
  made.session = std::make_unique<Session>(made.compiled.program, *engine.weights, *engine.backend);
  pass.set_inputs(*made.session);
  made.work = describe_pass(pass);
  made.series = "forward";
  return made;
}

}  // namespace headroom
