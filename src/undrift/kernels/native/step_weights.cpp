// How the candidates of a forecaster are judged and mixed, step by step: tests/twins/steps.py is the twin, and explains it.
// There is no instruction-set level in it: the bits are the same at each.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <cmath>

#include "array.h"
#include "definitions.h"
#include "dispatch.h"

namespace nb = nanobind;
using namespace undrift;

namespace {

// Regrets and sums of a step are remembered over 1,000 rows.
constexpr double STEP_BETA = 0.999;
// An error counts at most this many times the root mean squared error of its step.
constexpr double STEP_CUT = 8.0;
// The unit of regrets, the recent mean squared error, is taken over a third of the rows judged so far, at most this
// many.
constexpr double STEP_RECENT = 60.0;
// The unit of regrets is taken over at least this many rows, or over all where there are fewer.
constexpr double STEP_FEW = 10.0;
// The unit of regrets is at least this part of the mean squared error over all remembered rows.
constexpr double STEP_LEAST_RECENT = 0.03;
// A regret counts at most this many units.
constexpr double STEP_MOST_REGRET = 64.0;
// Moves from the last value, in roots of units, count at most this much: a jump must not outweigh the rest.
constexpr double STEP_MOST_MOVE = 8.0;
// A candidate none of whose regrets is larger than this forecasts what the mixture does, but for rounding.
constexpr double STEP_LEAST_REGRET = 1e-06;
// The part of the trust in the mixture that all steps have in common.
constexpr double STEP_SHARED = 0.5;

using Regrets = Array<double, 4>; // (series, 3, candidates, steps): sums, sums of squares, largest
using Sums = Array<double, 3>;    // (series, StepSum, steps)

double slope(double agreement, double moves) {
    return moves > 0.0 ? std::min(std::max(agreement / moves, 0.0), 1.0) : 0.0;
}

// Judge the forecasts of step h (from 0 on) that row `row` decides, for one series.
struct Judge {
    size_t candidates, steps;
    double *regrets, *sums, *losses;
    const int64_t *followed;
    size_t losers;

    void step(size_t h, const double *said, double p, double y) const {
        const size_t H = steps, C = candidates;
        double *sum = sums + h;
        const auto at = [&](int k) -> double & { return sum[(size_t)k * H]; };
        const double rows = at(StepSum::ROWS);
        // After forecasts that were all exact there is nothing to cut by: a cut of 0 would stay 0 for good.
        const double most = at(StepSum::SQUARES) > 0.0 ? STEP_CUT * std::sqrt(at(StepSum::SQUARES) / rows) : INFINITY;
        const double error = std::min(std::max(p - y, -most), most), value = p - error;
        const double seen = at(StepSum::SEEN) + 1.0;
        const double memory = std::min(std::max(seen / 3.0, std::min(seen, STEP_FEW)), STEP_RECENT);
        at(StepSum::RECENT) += (error * error - at(StepSum::RECENT)) / memory;
        const double usual = rows > 0.0 ? at(StepSum::SQUARES) / std::max(rows, 1.0) : 0.0;
        const double unit = std::sqrt(std::max(at(StepSum::RECENT), STEP_LEAST_RECENT * usual));
        for (size_t c = 0; c < C; ++c) {
            double regret = unit > 0.0 ? 2.0 * (error / unit) * ((p - said[c * H]) / unit) : 0.0;
            regret = std::min(std::max(regret, -STEP_MOST_REGRET), STEP_MOST_REGRET);
            double *R = regrets + c * H + h, *V = R + C * H, *E = V + C * H;
            *R = STEP_BETA * *R + regret;
            *V = STEP_BETA * *V + regret * regret;
            *E = std::max(STEP_BETA * *E, std::fabs(regret));
        }
        for (size_t k = 0; k < losers; ++k) {
            const double off = said[(size_t)followed[k] * H] - value;
            losses[k * H + h] = STEP_BETA * losses[k * H + h] + off * off;
        }
        const auto in_units = [&](double move) { return unit > 0.0 ? std::min(std::max(move / unit, -STEP_MOST_MOVE), STEP_MOST_MOVE) : 0.0; };
        const double move = in_units(p - said[0]), came = in_units(value - said[0]);
        at(StepSum::SEEN) += 1.0;
        at(StepSum::ROWS) = STEP_BETA * rows + 1.0;
        at(StepSum::SQUARES) = STEP_BETA * at(StepSum::SQUARES) + error * error;
        at(StepSum::MOVES) = STEP_BETA * at(StepSum::MOVES) + move * move;
        at(StepSum::AGREEMENT) = STEP_BETA * at(StepSum::AGREEMENT) + move * came;
        const double left = move * (came - slope(at(StepSum::AGREEMENT), at(StepSum::MOVES)) * move);
        at(StepSum::SPREAD) = STEP_BETA * at(StepSum::SPREAD) + left * left;
    }
};

void steps_judge(Regrets regrets, Sums sums, Array<double, 3> losses, Array<const int64_t, 1> followed,
                 Array<const double, 4> answers, Array<const double, 3> mixed, int64_t row, Input y) {
    const size_t S = regrets.shape(0), C = regrets.shape(2), H = regrets.shape(3), L = followed.shape(0);
    bool fits = regrets.shape(1) == 3 && sums.shape(0) == S && sums.shape(1) == StepSum::SIZE && sums.shape(2) == H &&
                losses.shape(0) == S && losses.shape(1) == L && losses.shape(2) == H && answers.shape(0) == H &&
                answers.shape(1) == S && answers.shape(2) == C && answers.shape(3) == H && mixed.shape(0) == H &&
                mixed.shape(1) == S && mixed.shape(2) == H && y.shape(0) == S && row >= 0;
    for (size_t k = 0; k < L; ++k) fits = fits && followed.data()[k] >= 0 && followed.data()[k] < (int64_t)C;
    if (!fits) throw nb::value_error("kernels: the arrays of the steps do not fit together");
    nb::gil_scoped_release unlocked;
    for (size_t s = 0; s < S; ++s) {
        const double value = y.data()[s];
        if (value != value) continue;
        const Judge judge{C, H, regrets.data() + s * 3 * C * H, sums.data() + s * StepSum::SIZE * H,
                          losses.data() + s * L * H, followed.data(), L};
        for (size_t h = 0; h < H && h < (size_t)row; ++h) {
            const size_t place = ((size_t)row - h - 1) % H, at = place * S + s;
            const double p = mixed.data()[at * H + h];
            if (p == p) judge.step(h, answers.data() + at * C * H + h, p, value);
        }
    }
}

// Weights of step h by regrets; `w` and the rest are strided by the steps.
void weigh(const double *regrets, const double *prior, size_t C, size_t H, double *w) {
    const double most = std::log((double)std::max(C, (size_t)2));
    const auto rate = [&](size_t c) {
        const double V = regrets[(C + c) * H], E = regrets[(2 * C + c) * H];
        return E > STEP_LEAST_REGRET ? std::min(0.5 / E, std::sqrt(most / V)) : 0.0;
    };
    double fastest = 0.0, top = -INFINITY, sum = 0.0;
    for (size_t c = 0; c < C; ++c) fastest = std::max(fastest, rate(c));
    for (size_t c = 0; c < C; ++c) {
        double eta = rate(c);
        if (eta == 0.0) eta = fastest > 0.0 ? fastest : 1.0; // never judged apart from the others
        w[c * H] = std::log(prior[c] * eta) + eta * regrets[c * H] - eta * eta * regrets[(C + c) * H];
        top = std::max(top, w[c * H]);
    }
    for (size_t c = 0; c < C; ++c) sum += w[c * H] = std::exp(w[c * H] - top);
    for (size_t c = 0; c < C; ++c) w[c * H] /= sum;
}

// How far the move that the mixture forecasts is to be trusted: 1 - 1/t^2, t its slope in standard errors.
double trust(const double *sum, size_t h, size_t H) {
    const double agreement = sum[StepSum::AGREEMENT * H], spread = sum[StepSum::SPREAD * H];
    if (!(agreement > 0.0)) return 0.0;
    const double t = agreement / (std::sqrt((double)(h + 1)) * std::sqrt(spread)); // two roots: the product may overflow
    return t > 1.0 ? 1.0 - 1.0 / t / t : 0.0;
}

void steps_mix(Regrets regrets, Sums sums, Array<const double, 3> losses, Input prior, int64_t naive, Array<double, 3> answers,
               Array<double, 3> weights, Array<double, 2> mixed, Array<double, 2> served) {
    const size_t S = regrets.shape(0), C = regrets.shape(2), H = regrets.shape(3), L = losses.shape(1);
    if (regrets.shape(1) != 3 || sums.shape(0) != S || sums.shape(1) != StepSum::SIZE || sums.shape(2) != H ||
        losses.shape(0) != S || losses.shape(2) != H || prior.shape(0) != C || naive < 1 || (size_t)naive > L || (size_t)naive > C ||
        answers.shape(0) != S || answers.shape(1) != C || answers.shape(2) != H || weights.shape(0) != S ||
        weights.shape(1) != C || weights.shape(2) != H || mixed.shape(0) != S || mixed.shape(1) != H || served.shape(0) != S ||
        served.shape(1) != H)
        throw nb::value_error("kernels: the arrays of the steps do not fit together");
    nb::gil_scoped_release unlocked;
    for (size_t s = 0; s < S; ++s) {
        const double *sum = sums.data() + s * StepSum::SIZE * H, *lost = losses.data() + s * L * H;
        double *said = answers.data() + s * C * H, *w = weights.data() + s * C * H;
        const auto slope_at = [&](size_t h) { return slope(sum[StepSum::AGREEMENT * H + h], sum[StepSum::MOVES * H + h]); };
        double shared = 0.0, shared_slope = 0.0, judged = 0.0; // a step that was never judged takes the means of those that were
        for (size_t h = 0; h < H; ++h)
            if (sum[StepSum::ROWS * H + h] > 0.0) shared += trust(sum + h, h, H), shared_slope += slope_at(h), judged += 1.0;
        shared /= std::max(judged, 1.0), shared_slope /= std::max(judged, 1.0);
        for (size_t h = 0; h < H; ++h) {
            weigh(regrets.data() + s * 3 * C * H + h, prior.data(), C, H, w + h);
            const double last = said[h];
            double heard = 0.0, sum_of_moves = 0.0;
            for (size_t c = 0; c < C; ++c)
                if (said[c * H + h] == said[c * H + h]) heard += w[c * H + h], sum_of_moves += w[c * H + h] * (said[c * H + h] - last);
            const double p = heard > 0.0 ? last + sum_of_moves / heard : last;
            for (size_t c = 0; c < C; ++c)
                if (said[c * H + h] != said[c * H + h]) said[c * H + h] = p; // who is silent neither gains nor loses
            size_t best = 0;
            for (size_t k = 1; k < (size_t)naive; ++k)
                if (lost[k * H + h] < lost[best * H + h]) best = k;
            const bool known = sum[StepSum::ROWS * H + h] > 0.0;
            const double J = (1.0 - STEP_SHARED) * (known ? trust(sum + h, h, H) : shared) + STEP_SHARED * shared;
            const double bent = last + (known ? slope_at(h) : shared_slope) * (p - last);
            const double other = said[best * H + h];
            mixed.data()[s * H + h] = p;
            served.data()[s * H + h] = other + J * (bent - other);
        }
    }
}

} // namespace

void bind_steps(nb::module_ &mod) {
    const auto a = [](const char *name) { return nb::arg(name).noconvert(); };
    mod.def("steps_judge", &steps_judge, a("regrets"), a("sums"), a("losses"), a("followed"), a("answers"), a("mixed"), nb::arg("row"), a("y"));
    mod.def("steps_mix", &steps_mix, a("regrets"), a("sums"), a("losses"), a("prior"), nb::arg("naive"), a("answers"), a("weights"),
            a("mixed"), a("served"));
}
