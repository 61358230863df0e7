// Changes that rows bring before any label: features are frozen, missing, or have another level. tests/twins/features.py
// is the twin, and explains it. There is no instruction-set level in it: the bits are the same at each.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "array.h"
#include "definitions.h"

namespace nb = nanobind;
using namespace undrift;

namespace {

// Rows before something that happens in runs is judged, and surprises before one is ranked.
constexpr double FEATURE_LEAST = 100.0;
// The bet on a run: that it goes on with this probability.
constexpr double RUN_ALWAYS = 0.999;
// Largest part of rows that repeat the value before them, for the level to be judged.
constexpr double MOST_REPEATS = 0.1;
// Rows over which the usual level is a mean, about.
constexpr double USUAL_ROWS = 100.0;
// Page's test bets on a change of so many deviations.
constexpr double PAGE_SHIFT = 1.0;
// The smallest of the three changes that are betted on, in deviations; the others are twice and three times as large.
constexpr double LEAST_SHIFT = 0.5;
// No sum of bets exceeds this.
constexpr double MOST_BETS = 1e300;

using F = FeatureNumber;
using R = RunNumber;

// Take a row into the test of runs of one feature; returns whether the run has lasted for too long.
bool add_run(double *run, bool happened, bool given, double limit) {
    const bool after = run[R::LENGTH] > 0.0;
    const double no = run[after ? R::YES_NO : R::NO_NO], yes = run[after ? R::YES_YES : R::NO_YES];
    const double usual = (happened ? yes : no) / (no + yes);
    const double ratio = (happened ? RUN_ALWAYS : 1.0 - RUN_ALWAYS) / usual;
    if (!given) return false;
    if (!happened) {
        if (after) {
            run[R::NO_YES] += 1.0;
            run[R::YES_NO] += 1.0;
            run[R::YES_YES] += run[R::LENGTH] - 1.0;
        } else {
            run[R::NO_NO] += 1.0;
        }
        run[R::STOPPED] = 1.0;
        run[R::REPORTED] = 0.0;
    }
    run[R::ROWS] += 1.0;
    run[R::LENGTH] = happened ? run[R::LENGTH] + 1.0 : 0.0;
    if (run[R::ROWS] <= FEATURE_LEAST || run[R::STOPPED] == 0.0 || run[R::REPORTED] != 0.0) return false;
    run[R::SUM] = std::min((1.0 + run[R::SUM]) * ratio, MOST_BETS);
    if (run[R::SUM] < limit) return false;
    run[R::SUM] = 0.0;
    if (happened) run[R::REPORTED] = 1.0;
    return happened;
}

// The part of rows in which it happened.
double share(const double *run) {
    const double happened = run[R::NO_YES] + run[R::YES_YES];
    return happened / (run[R::NO_NO] + run[R::NO_YES] + run[R::YES_NO] + run[R::YES_YES]);
}

// The normal score of a rank in (0, 1), between those in a table at equal distances.
double normal_score(double rank, const double *scores, size_t count) {
    const double at = rank * (double)(count + 1) - 1.0;
    if (!(at > 0.0)) return scores[0];
    const size_t j = std::min((size_t)at, count - 1);
    return j + 1 == count ? scores[j] : scores[j] + (at - (double)j) * (scores[j + 1] - scores[j]);
}

// What the value before says about this one, by the regression on all pairs so far, which then learns this pair.
double foretell(double *f, double before, double value) {
    const double variance = f[F::VARIANCE] > 0.0 ? f[F::VARIANCE] : 1.0;
    const double slope = std::min(std::max(f[F::COVARIANCE] / variance, -1.0), 1.0);
    const double expected = f[F::MEAN_NOW] + slope * (before - f[F::MEAN_BEFORE]);
    const double away = before - f[F::MEAN_BEFORE];
    f[F::ROUNDS] += 1.0;
    f[F::MEAN_BEFORE] += away / f[F::ROUNDS];
    f[F::MEAN_NOW] += (value - f[F::MEAN_NOW]) / f[F::ROUNDS];
    f[F::VARIANCE] += away * (before - f[F::MEAN_BEFORE]);
    f[F::COVARIANCE] += away * (value - f[F::MEAN_NOW]);
    return expected;
}

// Take a value into the usual level and into Page's tests.
void add_level(double *f, double before, double value, double score) {
    const double usual = f[F::LEVEL_ROWS] == 0.0 ? before : f[F::USUAL];
    for (int way = 0; way < 2; ++way) {
        double &page = f[F::PAGE + way];
        if (page <= 0.0) f[F::BEFORE + way] = usual, f[F::SINCE + way] = f[F::TOTAL + way] = 0.0;
        f[F::SINCE + way] += 1.0;
        f[F::TOTAL + way] += value;
        page = std::max(page + PAGE_SHIFT * (way ? -score : score) - PAGE_SHIFT * PAGE_SHIFT / 2.0, 0.0);
    }
    f[F::LEVEL_ROWS] += 1.0;
    f[F::USUAL] = usual + (value - usual) / std::min(f[F::LEVEL_ROWS], USUAL_ROWS);
}

// Take a row of one feature in; returns what was found, and writes the levels before and since a shift.
int add_value(double *f, double value, const double *scores, size_t count, double limit, double *levels) {
    const bool there = value == value;
    int found = add_run(f + F::MISSING, !there, true, limit) ? FeatureChange::MISSING : 0;
    if (!there) return found;
    const double before = f[F::LAST];
    f[F::LAST] = value;
    if (before != before) return found;
    const bool same = value == before;
    if (add_run(f + F::FROZEN, same, true, limit)) found += FeatureChange::FROZEN;
    if (same || share(f + F::FROZEN) > MOST_REPEATS) return found;
    double *window = f + F::END;
    const double surprise = value - foretell(f, before, value), kept = f[F::KEPT];
    const size_t filled = (size_t)kept;
    int64_t twice = 0; // those below count twice, those that are equal once
    for (size_t k = 0; k < filled; ++k) twice += (int64_t)(window[k] < surprise) + (int64_t)(window[k] <= surprise);
    const double score = normal_score((0.5 * (double)twice + 0.5) / (kept + 1.0), scores, count);
    window[(size_t)f[F::PLACE]] = surprise;
    f[F::PLACE] = f[F::PLACE] + 1.0 < (double)FEATURE_WINDOW ? f[F::PLACE] + 1.0 : 0.0;
    f[F::KEPT] = std::min(kept + 1.0, (double)FEATURE_WINDOW);
    const bool ranked = kept >= FEATURE_LEAST;
    add_level(f, before, value, ranked ? score : 0.0);
    if (!ranked) return found;
    int shifts = 0;
    for (int way = 0; way < 2; ++way) {
        double sum = 0.0;
        for (int k = 0; k < 3; ++k) {
            const double shift = (double)(k + 1) * LEAST_SHIFT;
            double &bet = f[F::BETS + 3 * way + k];
            bet = std::min((1.0 + bet) * std::exp((way ? -shift : shift) * score - shift * shift / 2.0), MOST_BETS);
            sum += bet / 3.0;
        }
        if (sum < limit) continue;
        shifts += way ? FeatureChange::DOWN : FeatureChange::UP;
        levels[2 * way] = f[F::BEFORE + way];
        levels[2 * way + 1] = f[F::TOTAL + way] / std::max(f[F::SINCE + way], 1.0);
    }
    if (shifts) { // after a change, the past is no measure any more
        std::fill(f + F::BETS, f + F::USUAL, 0.0);
        std::fill(f + F::ROUNDS, f + F::BETS, 0.0);
        f[F::LEVEL_ROWS] = f[F::PAGE] = f[F::PAGE + 1] = 0.0;
    }
    return found + shifts;
}

// Take rows in; returns in how many cells something was found.
int64_t watch_features(Matrix state, Inputs Z, Input scores, double limit, Array<int64_t, 2> found, State levels) {
    const size_t rounds = Z.shape(0), count = state.shape(0), size = state.shape(1);
    if (size != (size_t)F::END + (size_t)FEATURE_WINDOW || Z.shape(1) != count || found.shape(0) != rounds ||
        found.shape(1) != count || levels.shape(0) != rounds || levels.shape(1) != count || levels.shape(2) != 4 ||
        scores.shape(0) < 1)
        throw nb::value_error("kernels: the arrays of the watched features do not fit together");
    for (size_t j = 0; j < count; ++j) {
        const double *f = state.data() + j * size, most = (double)FEATURE_WINDOW;
        if (!(f[F::PLACE] >= 0.0 && f[F::PLACE] < most && f[F::KEPT] >= 0.0 && f[F::KEPT] <= most))
            throw nb::value_error("kernels: a place in the window of a watched feature is outside of it");
    }
    nb::gil_scoped_release unlocked;
    int64_t changes = 0;
    for (size_t j = 0; j < count; ++j)
        for (size_t t = 0; t < rounds; ++t) {
            const size_t cell = t * count + j;
            found.data()[cell] = add_value(state.data() + j * size, Z.data()[cell], scores.data(), scores.shape(0), limit,
                                           levels.data() + 4 * cell);
            changes += found.data()[cell] != 0;
        }
    return changes;
}

} // namespace

void bind_feature_watch(nb::module_ &mod) {
    const auto a = [](const char *name) { return nb::arg(name).noconvert(); };
    mod.def("watch_features", &watch_features, a("state"), a("Z"), a("scores"), nb::arg("limit"), a("found"), a("levels"));
}
