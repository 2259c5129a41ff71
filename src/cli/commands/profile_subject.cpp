#include "cli/commands/profile_subject.hpp"

#include "base/error.hpp"
#include "measure/results/describe.hpp"

namespace headroom {

ProfiledRun ProfileSubject::run() {
  if (generator)
    return {generator->session(),
            [this](const IterationObserver& observer) { static_cast<void>(generator->generate(images, observer)); }};
  return {*session, [this](const IterationObserver& observer) { session->run(observer); }, /*is_pass=*/true};
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
