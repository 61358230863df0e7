// Whole rounds of an ensemble in one call: memories, members, mixture. The twin is kernels/reference_round.py.
#pragma once

namespace {

constexpr size_t SOME = 128; // rounds taken at a time, so that what the memories say stays in cache

size_t padded(size_t n) { return (n + 7) & ~size_t(7); }

struct Desk { // scratch of a round: the memories' own, m and h of each, what the members say, the mixer's
    double *work, *m, *h, *E, *mixing;
    Desk(const Round &r, double *scratch) {
        const size_t rows = r.run.rounds < SOME ? r.run.rounds : SOME;
        const size_t said = padded(rows * r.run.learners);
        work = scratch;
        m = work + padded(::scratch(r.run));
        h = m + said;
        E = h + said;
        mixing = E + padded(rows * r.members);
        end = mixing + mix_scratch(r.mix);
    }
    double *end;
};

size_t round_scratch(const Round &r) { return (size_t)(Desk(r, nullptr).end - (double *)nullptr); }

size_t units_of(const Run &run) { return run.lanes == 1 ? run.learners : (run.learners + W - 1) / W; }

// Member i's answer (m + h hint) / (1 + h); its price if `stability` is there.
template <class X> INLINE X answer(X m, X h, X guess, X y, X *price) {
    const X part = 1.0 / (1.0 + h), lever = h * part, miss = guess - y;
    if (price) *price = ((miss * miss) * lever) * 0.5;
    return m * part + lever * guess;
}

template <int HINT, class X> INLINE X guessed(X m, double last) {
    return HINT == 0 ? like(m, 0.0) : HINT == 1 ? like(m, last) : m;
}

template <int HINT>
static void plain_answers(size_t n, const double *m, const double *h, double y, double last, double *E, double *prices) {
    size_t i = 0;
    for (; i + W <= n; i += W) {
        const V a = load(m + i);
        V price;
        store(E + i, answer(a, load(h + i), guessed<HINT>(a, last), all(y), &price));
        if (prices) store(prices + i, load(prices + i) + price);
    }
    for (; i < n; ++i) {
        double price;
        E[i] = answer(m[i], h[i], guessed<HINT>(m[i], last), y, &price);
        if (prices) prices[i] += price;
    }
}

// What the members make of the memories' m and h in one row. Without prices nothing is priced and y does not matter.
static void answers(const Round &r, const double *m, const double *h, double y, double last, double *E, double *prices) {
    if (r.plain && r.hint[0] == 0) plain_answers<0>(r.plain, m, h, y, last, E, prices);
    if (r.plain && r.hint[0] == 1) plain_answers<1>(r.plain, m, h, y, last, E, prices);
    if (r.plain && r.hint[0] == 2) plain_answers<2>(r.plain, m, h, y, last, E, prices);
    for (size_t i = r.plain; i < r.members; ++i) {
        const int64_t a = r.at[i];
        double price = 0.5 * (y * y); // of saying 0
        E[i] = a < 0 ? 0.0 : answer(m[a], h[a], r.hint[i] == 0 ? 0.0 : r.hint[i] == 1 ? last : m[a], y, &price);
        if (prices) prices[i] += price;
    }
}

// Log-odds and prices by member; memories and members may be in different order.
static void odds_answers(const Round &r, const double *m, const double *h, double *E, double *prices) {
    memcpy(E, m, r.plain * sizeof(double));
    for (size_t i = 0; prices && i < r.plain; ++i) prices[i] += h[i];
    for (size_t i = r.plain; i < r.members; ++i) {
        const int64_t a = r.at[i];
        E[i] = a < 0 ? 0.0 : m[a];
        if (prices) prices[i] += a < 0 ? 0.6931471805599453 : h[a]; // ln 2: the price of saying 0
    }
}

static void mixture(const Round &r, const double *E, size_t t, size_t rows, bool close, double *scratch) {
    if (!r.mix.log_weights) {
        memcpy(r.yhat + t, E, rows * sizeof(double)); // one member
        return;
    }
    Mix mix = r.mix;
    mix.E = E;
    mix.y = close ? r.run.y + t : nullptr;
    mix.rounds = rows;
    mix.yhat = r.yhat + t;
    if (mix.weights) mix.weights += t * r.members;
    if (!close) mix.losses = nullptr;
    (r.binary ? mix_logistic : mix_squared)(mix, scratch);
    if (close && r.binary) r.mix.state[0] += (double)rows; // what a fixed share may have cost is counted in rounds
}

// What the members make of the rows of `run` from row t on, once the memories were heard, and the mixture.
static void conclude(const Round &r, const Run &run, size_t t, bool close, const Desk &desk) {
    double last = r.binary ? 0.0 : r.last[0];
    for (size_t k = 0; k < run.rounds; ++k) {
        const double *m = desk.m + k * run.learners, *h = desk.h + k * run.learners;
        double *E = desk.E + k * r.members, *prices = close ? r.stability : nullptr;
        if (r.binary)
            odds_answers(r, m, h, E, prices);
        else
            answers(r, m, h, close ? run.y[k] : 0.0, last, E, prices);
        if (close) last = run.y[k];
    }
    if (close && !r.binary) r.last[0] = last;
    mixture(r, desk.E, t, run.rounds, close, desk.mixing);
}

static void rounds(const Round &r, bool close, double *scratch) {
    const Desk desk(r, scratch);
    for (size_t t = 0; t < r.run.rounds; t += SOME) {
        Run run = r.run;
        run.first += close ? (int64_t)t : 0;
        run.Z += t * run.dim;
        if (close) run.y += t;
        run.rounds = run.rounds - t < SOME ? run.rounds - t : SOME;
        run.one = desk.m;
        run.two = desk.h;
        const auto work = close ? (r.binary ? aioli_play : vaw_play) : (r.binary ? aioli_predict : vaw_predict);
        work(run, 0, units_of(run), desk.work);
        conclude(r, run, t, close, desk);
    }
}

void round_play(const Round &r, double *scratch) { rounds(r, true, scratch); }
void round_predict(const Round &r, double *scratch) { rounds(r, false, scratch); }

} // namespace
