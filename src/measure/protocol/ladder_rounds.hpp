#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/results/result.hpp"
#include "measure/statistics/statistics.hpp"

/// Combines the rounds of a ladder. A round visits the baseline, then rungs, then the baseline again, which is also
/// the first visit of the next round. A rung's time is divided by the baseline's time around the same round, so a
/// machine that is slower in one round slows both.
namespace headroom {

/// The origin of a rung's trials. The baseline's trials of round r ran before that round and after the previous one.
struct VisitId {
  std::int64_t process = 0;
  std::int64_t round = 0;
  friend auto operator<=>(const VisitId&, const VisitId&) = default;
};

/// One visit of a rung: consecutive generations.
struct Visit {
  VisitId id;
  std::vector<double> image_ms;  ///< for each step: the time of an image whose steps all take as long as this one
  std::string disturbance;       ///< why the times may be wrong; empty if no disturbance was found
  /// What the prologues add to the variance of the logarithm of the median image; 0 for fewer than 6 generations.
  double prologue_variance = 0;
};

/// The trials of a series by visit, in the order they ran; make_series() of them restores the series.
[[nodiscard]] std::vector<Trials> split_visits(const TrialSeries& series);

/// "one round says nothing of how rounds differ".
[[nodiscard]] std::string one_says_nothing(std::string_view visit = "round");

/// The word for a trial of a series: "pass" for "forward", else the name.
[[nodiscard]] std::string_view trial_of_series(std::string_view what);

/// Steps during which the conditions of a trial of "step" were observed: of a step cache the whole generation, whose
/// mean step the trial is; otherwise one.
[[nodiscard]] double steps_observed(const Result& result);
/// The visits of a series, whose trials count as the images. A visit is disturbed if find_disturbance() says so, or if
/// its second half took over 15% longer or shorter than its first.
[[nodiscard]] std::vector<Visit> visits_of(const TrialSeries& series, double observed = 1);
/// find_disturbance() of trials that were each observed during this many steps.
[[nodiscard]] std::string find_disturbance(const Trials& trials, double observed, std::string_view trial = "step");

/// The series whose visits are compared: "step" of a request, "forward" of a pass; null if there is neither.
[[nodiscard]] const TrialSeries* find_timed_series(const Result& result);
/// The same; throws Error as series_of() does if there is neither.
[[nodiscard]] const TrialSeries& timed_series(const Result& result);
/// Whether the timed series is that of one pass, or of a frame, rather than of requests.
[[nodiscard]] bool is_of_pass(const Result& result);

/// The iterations of the denoise loop that a request's result ran, including the effect of an applied `steps=N` or
/// `sampler=NAME`.
[[nodiscard]] double steps_run(const Result& result);
/// The visits of a result with a timed_series(). An image of a request takes (prologue + steps * step) / images, with
/// the median prologue of the same visit, so that factors vary between rounds as prologues do. An image of a pass is a
/// trial of "forward". Throws Error if a visit has steps and no prologue, though other visits have one.
[[nodiscard]] std::vector<Visit> visits_of(const Result& result);

/// The logarithm of a factor in one round, and its variance as estimated from the trials of that round.
struct RoundLog {
  double log = 0;
  double variance = 0;
};
/// By round.
using RoundLogs = std::map<std::int64_t, RoundLog>;

/// How many times faster one rung is than another.
struct Factor {
  double value = 1;                  ///< geometric mean over rounds
  std::optional<Interval> interval;  ///< 95%; absent for a single round
  Interval range{1, 1};              ///< from the lowest round to the highest
  std::int64_t rounds = 0;

  /// Whether it may be reported as a fact: its interval extends at most 10% from the value.
  [[nodiscard]] bool is_settled() const;
};

/// The factor over rounds. Its interval is Student's, on logarithms, from the spread between rounds. It is at least
/// as wide as the trials within the rounds alone imply, because two rounds may be close by chance.
[[nodiscard]] Factor factor_of(const RoundLogs& rounds);

/// One of several factors that are combined into another: multiplied or divided.
struct Term {
  const RoundLogs* rounds;
  double sign;  ///< 1 or -1
};
/// Their product over the rounds that all terms have, so that common parts, such as the baseline's times, count with
/// their actual weight. With fewer than two such rounds, each factor is taken over its own rounds, and the variances
/// add up. Every term needs a round.
[[nodiscard]] Factor factor_of(std::span<const Term> terms);

/// A rung's rounds paired with the baseline's.
struct PairedRounds {
  RoundLogs sound;                                ///< undisturbed rounds
  RoundLogs all;                                  ///< every round that has both
  std::map<std::int64_t, std::string> disturbed;  ///< why the other rounds are disturbed
};
/// The baseline of a visit is the geometric mean of the same process's baseline visits before and after the round, or
/// the one that exists. A round is disturbed if the rung's visit or one of the baseline's is, or if the baseline's
/// visits differ by over 15%: then something else changed in between.
[[nodiscard]] PairedRounds pair_rounds(std::span<const Visit> baseline, std::span<const Visit> rung);

/// The rounds that give the factor between two rungs of a ladder; empty if the results are not of one ladder, or not
/// settled.
[[nodiscard]] RoundLogs rounds_between(const Result& base, const Result& other);
/// How many times faster one rung of a ladder is than another, from the visits of both in their timed_series().
/// Relative to the baseline it comes from pair_rounds(), otherwise from visits of the same process and round. Exactly
/// 1 if one rung equals the other. Nothing if they are not of one ladder, or not settled.
[[nodiscard]] std::optional<Estimate> round_factor(const Result& base, const Result& other);

/// The result of judging a rung.
struct RungVerdict {
  RoundLogs rounds;               ///< the counted rounds: the undisturbed ones if these settle it, otherwise all
  Factor factor;                  ///< relative to the baseline, over the counted rounds
  std::string unsettled;          ///< why the factor is not reliable; empty if it is
  std::vector<VisitId> left_out;  ///< visits that are not counted, if it is settled without them
};
/// A rung is settled if it has at least two undisturbed rounds and their factor is_settled().
[[nodiscard]] RungVerdict judge_rung(std::span<const Visit> baseline, std::span<const Visit> rung);
/// The same for the baseline, which has no factor: settled if at least two of its visits are undisturbed.
[[nodiscard]] RungVerdict judge_baseline(std::span<const Visit> baseline);

/// Appends a visit's trials to one series of a result.
void add_visit(Result& result, const std::string& what, const Trials& trials);
/// Moves visits from every series to a separate one, "step_left_out" for "step"; statistics then cover the rest.
void leave_out(Result& result, std::span<const VisitId> visits);

}  // namespace headroom
