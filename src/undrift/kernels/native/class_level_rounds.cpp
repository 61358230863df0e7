// The level of several classes at one instruction-set level: compiled once per level with its own flags and its number as
// UNDRIFT_LEVEL (see vec.h). tests/twins/class_level.py is the twin.
#include "class_level.h"

#include "class_regression.h"

namespace {

// Memories of the regression, in rows after which a row counts half; the last one never forgets.
constexpr double CLASS_SHORT_MEMORY = 300.0;
constexpr double CLASS_LONG_MEMORY = 3000.0;
// What is left of the past after however long a time, at least.
constexpr double CLASS_LEAST_DISCOUNT = 1e-200;
// Least probability that a prediction made elsewhere gives to a class.
constexpr double CLASS_LEAST_GIVEN = 1e-12;
// The answer of a missing candidate in a record.
constexpr double CLASS_MISSING = 1.0;
// No log-weight of the last mixer falls below this.
constexpr double CLASS_LEAST_LOG_WEIGHT = -1e300;

// What is left of a memory's past after this time.
double discount(size_t memory, double elapsed) {
    if (memory + 1 == (size_t)CLASS_MEMORIES) return 1.0;
    const double beta = 1.0 + std::expm1(-std::log(2.0) / (memory ? CLASS_LONG_MEMORY : CLASS_SHORT_MEMORY));
    return elapsed == 1.0 ? beta : larger(std::pow(beta, elapsed), CLASS_LEAST_DISCOUNT);
}

// ln(e^a + e^b).
double log_add(double a, double b) {
    const double high = larger(a, b), low = smaller(a, b);
    return high + std::log1p(std::exp(low - high));
}

void normalise(double *logits, size_t K) {
    double most = logits[0], sum = 0.0;
    for (size_t k = 1; k < K; ++k) most = larger(logits[k], most);
    for (size_t k = 0; k < K; ++k) sum += std::exp(logits[k] - most);
    const double by = most + std::log(sum);
    for (size_t k = 0; k < K; ++k) logits[k] -= by;
}

// The whole level: its state, the regression, and the last mixer.
class Level {
  public:
    Level(const ClassLevelCall &run, double *scratch)
        : K(run.classes), N(CLASS_CANDIDATES + run.given), at(memory_size() * CLASS_MEMORIES, N, K), state(run.state),
          regression(K, scratch), row(K, N * K), record(scratch + Regression::scratch(K)), told(record + row.size) {}

    static size_t scratch(size_t K, size_t given) {
        const size_t N = CLASS_CANDIDATES + given;
        return Regression::scratch(K) + ClassRecordLayout(K, N * K).size + 2 * N;
    }

    const double *served() const { return record; }

    // Fill the record of a row; where there is a label, let the memories learn it.
    void predict(const double *S, double elapsed, const double *offered, const double *label, double weight) {
        memcpy(record + row.log_odds, S, K * sizeof(double));
        double *answers = record + row.answers;
        advance(S, elapsed, answers, label, weight);
        double *plain = answers + CLASS_MEMORIES * K, *base = plain + K, *stay = base + K;
        const double *counts = state + at.counts, *numbers = state + at.numbers;
        memcpy(plain, S, K * sizeof(double));
        const double other = std::log((numbers[ClassNumber::CHANGED] + 1.0) / (double)(K - 1));
        for (size_t k = 0; k < K; ++k) base[k] = std::log(counts[k] + 1.0), stay[k] = other;
        stay[(size_t)numbers[ClassNumber::LAST]] = std::log(numbers[ClassNumber::STAYED] + 1.0);
        for (size_t i = CLASS_CANDIDATES; i < N; ++i) {
            double *answer = answers + i * K;
            bool missing = false;
            for (size_t k = 0; k < K; ++k) {
                const double p = *offered++;
                missing = missing || p != p;
                answer[k] = std::log(smaller(larger(p, CLASS_LEAST_GIVEN), 1.0));
            }
            if (missing)
                for (size_t k = 0; k < K; ++k) answer[k] = CLASS_MISSING;
        }
        for (size_t i = 0; i < N; ++i)
            if (!(answers[i * K] > 0.0) || i < (size_t)CLASS_CANDIDATES) normalise(answers + i * K, K);
        mix();
    }

    // Let the memories learn a row that was served; what they answer now goes to `record`.
    void learn_late(const double *S, double elapsed, const double *label, double weight) {
        advance(S, elapsed, record + row.answers, label, weight);
    }

    // Close a round of the last mixer with the record of a row.
    void learn_last(const double *served, size_t y) {
        double *log_weights = state + at.log_weights, *losses = state + at.losses, *numbers = state + at.numbers;
        const double *answers = served + row.answers;
        const double mixed = mixture(answers, y);
        double most = CLASS_LEAST_LOG_WEIGHT, sum = 0.0;
        for (size_t i = 0; i < N; ++i) {
            told[i] = answers[i * K] > 0.0 ? mixed : answers[i * K + y];
            losses[i] -= told[i];
            told[i] += log_weights[i];
            most = larger(told[i], most);
        }
        for (size_t i = 0; i < N; ++i) sum += std::exp(told[i] - most);
        const double rounds = numbers[ClassNumber::MIXED] += 1.0, share = FIRST_SHARE / (rounds + 1.0);
        const double by = std::log1p(-share) - most - std::log(sum), back = std::log(share / (double)N);
        for (size_t i = 0; i < N; ++i) log_weights[i] = larger(log_add(told[i] + by, back), CLASS_LEAST_LOG_WEIGHT);
        numbers[ClassNumber::EXCESS] += mixed - served[row.log_probabilities + y];
    }

    void count(size_t y) {
        double *numbers = state + at.numbers;
        if (numbers[ClassNumber::ROUNDS] > 0.0)
            numbers[(double)y == numbers[ClassNumber::LAST] ? ClassNumber::STAYED : ClassNumber::CHANGED] += 1.0;
        numbers[ClassNumber::ROUNDS] += 1.0;
        numbers[ClassNumber::LAST] = (double)y;
        state[at.counts + y] += 1.0;
    }

  private:
    const size_t K, N;
    const ClassLevelLayout at;
    double *state;
    Regression regression;
    const ClassRecordLayout row;
    double *record, *told;

    size_t memory_size() const { return ClassMemoryLayout((2 * K + 1) * (2 * K + 1), 2 * K + 1).size; }

    // Fill the logits (memories, K) of a row, and learn its label if there is one.
    void advance(const double *S, double elapsed, double *logits, const double *label, double weight) {
        const size_t n = 2 * K + 1;
        const ClassMemoryLayout part(n * n, n);
        regression.set_row(S);
        for (size_t i = 0; i < (size_t)CLASS_MEMORIES; ++i) {
            double *first = state + at.memories + i * part.size;
            const Memory one{first + part.information, first + part.covariance, first + part.pull, first + part.leader,
                             first + part.numbers};
            double beta = discount(i, elapsed);
            if (!regression.look(one, beta)) {
                if (label) {
                    regression.restart(one);
                    regression.look(one, beta = 1.0);
                } else {
                    regression.look_fresh();
                }
            }
            regression.predict();
            memcpy(logits + i * K, regression.b, K * sizeof(double));
            if (label) regression.learn(one, (size_t)*label, weight, beta);
        }
    }

    // The log-probability of class k in the mixture of the candidates that are not missing.
    double mixture(const double *answers, size_t k) const {
        const double *log_weights = state + at.log_weights;
        double most = CLASS_LEAST_LOG_WEIGHT, most_weight = CLASS_LEAST_LOG_WEIGHT, sum = 0.0, whole = 0.0;
        for (size_t i = 0; i < N; ++i) {
            if (answers[i * K] > 0.0) continue;
            most = larger(log_weights[i] + answers[i * K + k], most);
            most_weight = larger(log_weights[i], most_weight);
        }
        for (size_t i = 0; i < N; ++i) {
            if (answers[i * K] > 0.0) continue;
            sum += std::exp(log_weights[i] + answers[i * K + k] - most);
            whole += std::exp(log_weights[i] - most_weight);
        }
        return most + std::log(sum) - most_weight - std::log(whole);
    }

    // Fill the log-probabilities of the record: the mixture, less a share 1 / (t + 1) for a class not seen yet, t labels known.
    void mix() {
        const double rounds = state[at.numbers + ClassNumber::ROUNDS], *answers = record + row.answers;
        double *out = record + row.log_probabilities, whole = 0.0;
        for (size_t i = 0; i < N; ++i)
            whole += told[i] = answers[i * K] > 0.0 ? 0.0 : std::exp(state[at.log_weights + i]);
        for (size_t k = 0; k < K; ++k) out[k] = 0.0;
        for (size_t i = 0; i < N; ++i)
            if (const double by = told[i] / whole; by > 0.0)
                for (size_t k = 0; k < K; ++k) out[k] += by * std::exp(answers[i * K + k]);
        for (size_t k = 0; k < K; ++k) // where a sum would lose digits, logarithms are added
            out[k] = out[k] > 1e-280 ? std::log(out[k]) : mixture(answers, k);
        normalise(out, K);
        const double kept = std::log1p(-1.0 / (rounds > 0.0 ? rounds + 1.0 : 2.0));
        for (size_t k = 0; k < K; ++k) out[k] += kept;
    }
};

void play(const ClassLevelCall &run, double *scratch) {
    Level level(run, scratch);
    for (size_t t = 0; t < run.rows; ++t) {
        const size_t y = (size_t)run.y[t];
        level.predict(run.S + t * run.classes, run.elapsed[t], run.offered + t * run.given * run.classes, run.y + t,
                      run.weight[t]);
        memcpy(run.out + t * run.width, level.served(), run.width * sizeof(double));
        level.learn_last(level.served(), y);
        level.count(y);
    }
}

void predict(const ClassLevelCall &run, double *scratch) {
    Level level(run, scratch);
    for (size_t t = 0; t < run.rows; ++t) {
        level.predict(run.S + t * run.classes, run.elapsed[t], run.offered + t * run.given * run.classes, nullptr, 0.0);
        memcpy(run.out + t * run.width, level.served(), run.width * sizeof(double));
    }
}

void settle(const ClassLevelCall &run, const double *record, double *scratch) {
    Level level(run, scratch);
    if (record) {
        level.learn_late(run.S, *run.elapsed, run.y, *run.weight);
        level.learn_last(record, (size_t)*run.y);
    }
    level.count((size_t)*run.y);
}

} // namespace

namespace undrift {
#if UNDRIFT_LEVEL == 0
extern const ClassLevelTable class_level_portable = {Level::scratch, play, predict, settle};
#elif UNDRIFT_LEVEL == 1
extern const ClassLevelTable class_level_neon = {Level::scratch, play, predict, settle};
#elif UNDRIFT_LEVEL == 2
extern const ClassLevelTable class_level_v2 = {Level::scratch, play, predict, settle};
#elif UNDRIFT_LEVEL == 3
extern const ClassLevelTable class_level_v3 = {Level::scratch, play, predict, settle};
#else
extern const ClassLevelTable class_level_v4 = {Level::scratch, play, predict, settle};
#endif
} // namespace undrift
