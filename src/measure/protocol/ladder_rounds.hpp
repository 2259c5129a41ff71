#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "measure/results/result.hpp"
#include "measure/statistics/statistics.hpp"

/// What the rounds of a ladder say together. A round is one climb: the baseline, then rungs, then the baseline again,
/// which is also the first of the next round. A rung's time in a round is held against the baseline's around that
/// round, so that a machine that is slower today, or in this round, slows both.
namespace headroom {

/// Where trials of a rung come from. The baseline's of round r stand before that round and after the one before.
struct VisitId {
  std::int64_t process = 0;
  std::int64_t round = 0;
  friend auto operator<=>(const VisitId&, const VisitId&) = default;
};

/// One stay at a rung: generations one after the other.
struct Visit {
  VisitId id;
  std::vector<double> image_ms;  ///< by each step: what an image takes where every step takes as long as this one
  std::string disturbance;       ///< why the times may be wrong; empty where nothing speaks against them
};

/// The trials of a series by visit, in the order they ran; make_series() of them is the series again.
[[nodiscard]] std::vector<Trials> split_visits(const TrialSeries& series);

/// The visits of a series of steps; `image_ms` has an entry for each of its trials. What disturbed a visit is what
/// find_disturbance() says of it, or that its second half took over 15% longer or shorter than its first.
[[nodiscard]] std::vector<Visit> visits_of(const TrialSeries& steps, std::span<const double> image_ms);

/// The series whose visits are held against each other: "step" of a request, "forward" of a pass; null where there is
/// neither.
[[nodiscard]] const TrialSeries* find_timed_series(const Result& result);
/// The same; throws Error as series_of() does where there is neither.
[[nodiscard]] const TrialSeries& timed_series(const Result& result);
/// Whether it is the time of one pass, or of a frame, and not of requests.
[[nodiscard]] bool is_of_pass(const Result& result);

/// Iterations of the denoise loop that a result of a request really took: of the steps of `steps=N` and of the sampler of
/// `sampler=NAME` where they were applied.
[[nodiscard]] double steps_run(const Result& result);
/// What an image takes, in ms, by each trial of the series "step": (median prologue + steps * step) / images. Of a pass
/// the trials of "forward".
[[nodiscard]] std::vector<double> image_times(const Result& result);
/// The visits of a result with a timed_series().
[[nodiscard]] std::vector<Visit> visits_of(const Result& result);

/// The logarithm of a factor in one round, and its variance as far as the trials of that round tell it.
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

  /// Whether it may be told as a fact: its interval reaches no further than 10% from it.
  [[nodiscard]] bool is_settled() const;
};

/// The factor over rounds. Its interval is Student's, on logarithms, from how far the rounds are apart, and at least as
/// wide as the trials within the rounds alone would have it: two rounds may be close by chance.
[[nodiscard]] Factor factor_of(const RoundLogs& rounds);

/// One of several factors of which another is made: multiplied by it, or divided.
struct Term {
  const RoundLogs* rounds;
  double sign;  ///< 1 or -1
};
/// Their product over the rounds that all have: what is common to them, as the baseline's times, then counts as often
/// as it really does. With fewer than two such rounds that of the factors over their own rounds, whose intervals then
/// add up. Every term needs a round.
[[nodiscard]] Factor factor_of(std::span<const Term> terms);

/// A rung's rounds beside the baseline's.
struct PairedRounds {
  RoundLogs sound;                                ///< of rounds that nothing speaks against
  RoundLogs all;                                  ///< of every round that has both
  std::map<std::int64_t, std::string> disturbed;  ///< why the others are not sound
};
/// The baseline of a visit is that of the same process before and after its round, the geometric mean of both, or what
/// is there of them. A round is disturbed where the rung's visit or one of the baseline's is, or where the baseline's
/// differ by over 15%: then something else changed in between.
[[nodiscard]] PairedRounds pair_rounds(std::span<const Visit> baseline, std::span<const Visit> rung);

/// The rounds that tell how many times faster one rung of a ladder is than another; empty where they are not of one
/// ladder, or are not settled.
[[nodiscard]] RoundLogs rounds_between(const Result& base, const Result& other);
/// How many times faster one rung of a ladder is than another, from the visits of both that are in their
/// timed_series(): on the baseline as pair_rounds() has it, else from visits of one process and round. Exactly 1
/// where one is the other. Nothing where they are not of one ladder, or are not settled.
[[nodiscard]] std::optional<Estimate> round_factor(const Result& base, const Result& other);

/// What is to be made of a rung.
struct RungVerdict {
  RoundLogs rounds;               ///< that count: the sound ones where these settle it, else all
  Factor factor;                  ///< on the baseline, of those
  std::string unsettled;          ///< why the factor is no fact; empty where it is one
  std::vector<VisitId> left_out;  ///< visits that do not count, where it is settled without them
};
/// Settled are at least two sound rounds whose factor is_settled().
[[nodiscard]] RungVerdict judge_rung(std::span<const Visit> baseline, std::span<const Visit> rung);
/// The same of the baseline, which has no factor: settled where at least two of its visits are not disturbed.
[[nodiscard]] RungVerdict judge_baseline(std::span<const Visit> baseline);

/// Adds a visit's trials of one series to a result, at its end.
void add_visit(Result& result, const std::string& what, const Trials& trials);
/// Moves visits out of every series into one of its own, "step_left_out" for "step": statistics are then of the others.
void leave_out(Result& result, std::span<const VisitId> visits);

}  // namespace headroom
