// A bank of level-trend-season smoothers of one series, and the forecasts of the bank: tests/twins/smoothers.py is the twin,
// and explains the recursion. There is no instruction-set level in it: the bits are the same at each.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <cmath>

#include "array.h"
#include "definitions.h"
#include "dispatch.h"

namespace nb = nanobind;
using namespace undrift;

namespace {

// Losses of smoothers are remembered over 1,000 rows.
constexpr double SMOOTHER_BETA = 0.999;
// A squared error counts at most this many times the mean of the best smoother.
constexpr double SMOOTHER_MOST_LOSS = 64.0;
// What is added to losses before their ratio is taken.
constexpr double SMOOTHER_LEAST_LOSS = 1e-300;
// A smoother whose weight is below this part of the best one's has none.
constexpr double SMOOTHER_LEAST_WEIGHT = 1e-12;

size_t bands_of(size_t horizon) {
    size_t count = 1;
    for (size_t last = 1; last < horizon; last *= 2) ++count;
    return count;
}

// The first step of a band, from 0 on: 0, 1, 2, 4, 8, ...
size_t band_begin(size_t band) { return band == 0 ? 0 : (size_t)1 << (band - 1); }

struct Bank {
    size_t count, horizon, bands;
    const double *gains;    // (count, SmootherGain)
    const int64_t *periods; // (count, 2); 0: none
    const double *reach;    // (count, horizon): how much of the trend is in each step
    double *head, *body;

    double *counts() const { return head + SmootherHead::SIZE; }
    size_t cycles(size_t period) const { return (horizon + period - 1) / period; }
    size_t block(size_t k) const {
        size_t size = 2 + bands + 2 * horizon;
        for (size_t q = 0; q < 2; ++q)
            if (const size_t p = (size_t)periods[2 * k + q]) size += p * cycles(p);
        return size;
    }
    size_t size() const {
        size_t total = SmootherHead::SIZE + bands;
        for (size_t k = 0; k < count; ++k) total += block(k);
        return total;
    }
};

// The numbers of one smoother.
struct Smoother {
    double *level, *trend, *losses, *levels, *trends, *seasons[2];
    size_t period[2];
    Smoother(const Bank &bank, size_t k, double *at) {
        level = at, trend = at + 1, losses = at + 2, levels = losses + bank.bands, trends = levels + bank.horizon;
        double *next = trends + bank.horizon;
        for (size_t q = 0; q < 2; ++q) {
            period[q] = (size_t)bank.periods[2 * k + q], seasons[q] = next;
            if (period[q]) next += period[q] * bank.cycles(period[q]);
        }
    }
    double season(size_t row) const {
        double sum = 0.0;
        for (size_t q = 0; q < 2; ++q)
            if (period[q]) sum += seasons[q][row % period[q]];
        return sum;
    }
};

// What this smoother said of row t, at the steps 1 to n: said[h - 1].
void recall(const Bank &bank, const Smoother &one, const double *reach, size_t t, size_t n, double *said) {
    const size_t H = bank.horizon, here = H - 1 - t % H, straight = std::min(n, H - 1 - here);
    const double *levels = one.levels + here + 1, *trends = one.trends + here + 1;
    for (size_t h = 0; h < straight; ++h) said[h] = levels[h] + reach[h] * trends[h];
    for (size_t h = straight; h < n; ++h) said[h] = one.levels[h - straight] + reach[h] * one.trends[h - straight];
    for (size_t q = 0; q < 2; ++q) {
        const size_t p = one.period[q];
        if (!p) continue;
        for (size_t begin = 0, cycle = 0; begin < n; begin += p, ++cycle) {
            const double then = one.seasons[q][cycle * p + t % p];
            for (size_t h = begin; h < std::min(n, begin + p); ++h) said[h] += then;
        }
    }
}

void judge(const Bank &bank, size_t t, size_t n, double y, double *said) {
    double *counts = bank.counts(), most[64];
    const size_t reached = bands_of(n);
    for (size_t g = 0; g < reached; ++g) {
        double best = INFINITY, *at = bank.body;
        for (size_t k = 0; k < bank.count; at += bank.block(k), ++k) best = std::min(best, at[2 + g]);
        most[g] = counts[g] > 0.0 && best > 0.0 ? SMOOTHER_MOST_LOSS * best / counts[g] : INFINITY;
        counts[g] = SMOOTHER_BETA * counts[g] + 1.0;
    }
    double *at = bank.body;
    for (size_t k = 0; k < bank.count; at += bank.block(k), ++k) {
        const Smoother one(bank, k, at);
        recall(bank, one, bank.reach + k * bank.horizon, t, n, said);
        for (size_t g = 0; g < reached; ++g) {
            const size_t begin = band_begin(g), end = std::min(n, (size_t)1 << g);
            double sum = 0.0;
            for (size_t h = begin; h < end; ++h) sum += std::min((y - said[h]) * (y - said[h]), most[g]);
            one.losses[g] = SMOOTHER_BETA * one.losses[g] + sum / (double)(end - begin);
        }
    }
}

void learn(const Bank &bank, size_t t, double y) {
    const double seen = bank.head[SmootherHead::SEEN];
    const bool there = y == y;
    const size_t H = bank.horizon, here = H - 1 - t % H, age = t - (size_t)bank.head[SmootherHead::FIRST];
    double *at = bank.body;
    for (size_t k = 0; k < bank.count; at += bank.block(k), ++k) {
        const Smoother one(bank, k, at);
        const double *gain = bank.gains + k * SmootherGain::SIZE;
        const double damp = gain[SmootherGain::DAMPING], before = *one.level + damp * *one.trend;
        const double error = there ? y - (before + one.season(t)) : 0.0;
        const double alpha = std::max(gain[SmootherGain::LEVEL], 1.0 / (seen + 1.0));
        *one.level = before + alpha * error;
        *one.trend = damp * *one.trend + (seen > 0.0 ? alpha * gain[SmootherGain::TREND] * error : 0.0);
        const double both = one.period[0] && one.period[1] ? 2.0 : 1.0;
        for (size_t q = 0; q < 2; ++q) {
            const size_t p = one.period[q];
            if (!p) continue;
            double *place = one.seasons[q] + t % p;
            for (size_t c = bank.cycles(p) - 1; c > 0; --c) place[c * p] = place[(c - 1) * p];
            const double gamma = std::max(gain[SmootherGain::SEASON], 1.0 / ((double)(age / p) + 1.0 + (double)q));
            *place += gamma * (1.0 - alpha) * error / both;
        }
        one.levels[here] = *one.level, one.trends[here] = *one.trend;
    }
    if (there) bank.head[SmootherHead::SEEN] = seen + 1.0;
}

// Weights by excess losses in logarithms, in place; the best has 1 before they are divided by their sum, and those far
// below it have none: they need not be added up, and yet the weights add up to 1.
void weigh(double *excess, size_t count) {
    const double least = *std::min_element(excess, excess + count);
    double sum = 0.0;
    for (size_t k = 0; k < count; ++k) {
        const double weight = std::exp(least - excess[k]);
        sum += excess[k] = weight < SMOOTHER_LEAST_WEIGHT ? 0.0 : weight;
    }
    for (size_t k = 0; k < count; ++k) excess[k] /= sum;
}

// The forecasts after row t: by weights of the step's band, and by weights of all bands together.
void forecast(const Bank &bank, size_t t, double *out, double *scratch) {
    const size_t K = bank.count, H = bank.horizon, G = bank.bands;
    double *weights = scratch, *excess = weights + (G + 1) * K, *said = excess + G * K;
    const double *counts = bank.counts();
    size_t known = 0;
    for (size_t g = 0; g < G; ++g)
        if (counts[g] > 0.0) known = g;
    for (size_t g = 0; g <= known; ++g) {
        double best = INFINITY, *at = bank.body;
        for (size_t k = 0; k < K; at += bank.block(k), ++k) best = std::min(best, excess[g * K + k] = at[2 + g]);
        for (size_t k = 0; k < K; ++k)
            excess[g * K + k] = std::log((excess[g * K + k] + SMOOTHER_LEAST_LOSS) / (best + SMOOTHER_LEAST_LOSS));
    }
    for (size_t g = 0; g <= G; ++g) {
        const size_t band = std::min(g, known);
        const double steps = (double)(band_begin(band) + std::min(H, (size_t)1 << band) + 1) / 2.0; // the band's middle
        const double rows = counts[band] / steps;
        for (size_t k = 0; k < K; ++k) {
            double sum = excess[band * K + k] * std::max(1.0, rows);
            if (g == G) {
                sum = 0.0;
                for (size_t b = 0; b <= known; ++b) sum += excess[b * K + k];
                sum *= rows;
            }
            weights[g * K + k] = 0.5 * sum;
        }
        weigh(weights + g * K, K);
    }
    std::fill(out, out + 2 * H, 0.0);
    double *at = bank.body;
    for (size_t k = 0; k < K; at += bank.block(k), ++k) {
        double most = 0.0;
        for (size_t g = 0; g <= G; ++g) most = std::max(most, weights[g * K + k]);
        if (most == 0.0) continue;
        const Smoother one(bank, k, at);
        const double *reach = bank.reach + k * H;
        for (size_t h = 0; h < H; ++h) said[h] = *one.level + reach[h] * *one.trend;
        for (size_t q = 0; q < 2; ++q) {
            const size_t p = one.period[q];
            if (!p) continue;
            for (size_t h = 0, place = (t + 1) % p; h < H; place = 0) {
                const size_t n = std::min(H - h, p - place);
                for (size_t i = 0; i < n; ++i) said[h + i] += one.seasons[q][place + i];
                h += n;
            }
        }
        for (size_t g = 0; g < G; ++g) {
            const double weight = weights[g * K + k];
            for (size_t h = band_begin(g); h < std::min(H, (size_t)1 << g); ++h) out[h] += weight * said[h];
        }
        const double weight = weights[G * K + k];
        for (size_t h = 0; h < H; ++h) out[H + h] += weight * said[h];
    }
}

using Gains = Array<const double, 2>;
using Periods = Array<const int64_t, 2>;

void check_shape(const Periods &periods, int64_t horizon) {
    for (size_t k = 0; k < periods.shape(0) * periods.shape(1); ++k)
        if (periods.data()[k] < 0 || periods.data()[k] > 1000000) throw nb::value_error("kernels: periods must be 0 to 1000000");
    if (periods.shape(1) != 2 || horizon < 1 || horizon > (int64_t)1 << 40)
        throw nb::value_error("kernels: the arrays of the smoothers do not fit together");
}

size_t smoothers_size(Periods periods, int64_t horizon) {
    check_shape(periods, horizon);
    Bank bank{periods.shape(0), (size_t)horizon, bands_of((size_t)horizon), nullptr, periods.data(), nullptr, nullptr, nullptr};
    return bank.size();
}

int64_t smoothers_play(Array<double, 1> state, Gains gains, Periods periods, Gains reach, int64_t first, Array<const double, 1> y,
                       Array<double, 3> out) {
    const size_t K = gains.shape(0), H = reach.shape(1);
    check_shape(periods, (int64_t)H);
    Bank bank{K, H, bands_of(H), gains.data(), periods.data(), reach.data(), state.data(), nullptr};
    if (!K || gains.shape(1) != SmootherGain::SIZE || periods.shape(0) != K || reach.shape(0) != K || first < 0 || out.shape(0) != y.shape(0) || out.shape(1) != 2 || out.shape(2) != H ||
        state.shape(0) != bank.size())
        throw nb::value_error("kernels: the arrays of the smoothers do not fit together");
    bank.body = bank.head + SmootherHead::SIZE + bank.bands;
    nb::gil_scoped_release unlocked;
    for (size_t r = 0; r < y.shape(0); ++r)
        if (std::fabs(y.data()[r]) > INPUT_LIMIT) return -1 - (int64_t)r; // NaN is a value that is missing
    double *scratch = scratch_of((2 * bank.bands + 1) * K + H);
    for (size_t r = 0; r < y.shape(0); ++r) {
        const size_t t = (size_t)first + r;
        const double value = y.data()[r];
        double *served = out.data() + r * 2 * H;
        if (bank.head[SmootherHead::SEEN] == 0.0) {
            if (value != value) {
                std::fill(served, served + 2 * H, 0.0);
                continue;
            }
            bank.head[SmootherHead::FIRST] = (double)t;
            double *at = bank.body;
            for (size_t k = 0; k < K; at += bank.block(k), ++k) *at = value;
        } else if (value == value) {
            judge(bank, t, std::min(H, t - (size_t)bank.head[SmootherHead::FIRST]), value, scratch);
        }
        learn(bank, t, value);
        forecast(bank, t, served, scratch);
    }
    return 0;
}

} // namespace

void bind_smoothers(nb::module_ &mod) {
    const auto a = [](const char *name) { return nb::arg(name).noconvert(); };
    mod.def("smoothers_size", &smoothers_size, a("periods"), nb::arg("horizon"));
    mod.def("smoothers_play", &smoothers_play, a("state"), a("gains"), a("periods"), a("reach"), nb::arg("first"), a("y"), a("out"));
}
