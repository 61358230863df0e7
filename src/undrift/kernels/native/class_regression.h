// Softmax regression over the log-odds of K classes: one memory of the level of several classes. tests/twins/class_level.py is
// the twin, and says what the letters mean.
//
// The design of a row has three numbers for each class: logit k is s_k (c_k + c) + d_k. Parameters lie in three parts, slopes
// c_k, offsets d_k and the common slope c, so that a product with a design is two or three operations on whole rows of a
// matrix. Logits count up to a common constant. Their Hessian is H = diag(p) - p p' = B B', and B'w is sqrt(p_i) (w_i - p.w),
// which no common constant changes: nothing needs a basis of the vectors that sum to 0.
#pragma once
#include <initializer_list>
#include <string.h>

#include "definitions.h"
#include "dense_tiles.h"
#include "softmax_limits.h"

namespace {

// Size of the logits that the regression is careful about.
constexpr double CLASS_REACH = 2.0;
// Log-odds are cut here.
constexpr double CLASS_MOST_LOG_ODDS = 30.0;
// Largest change of a logit in the last step of the search for a prediction, and of one that only begins it.
constexpr double CLASS_ACCURACY = 1e-08;
constexpr double CLASS_GUESS = 0.001;
// Steps of Broyden's method, at most.
constexpr size_t BROYDEN_STEPS = 6;

// Probabilities of logits, and what H = diag(p) - p p' needs of them.
struct Softmax {
    double *p, *root; // (K): probabilities and their square roots
    size_t top;       // the most probable class
    double rest;      // the probability of all others, which 1 - p would round
    double log_sum;   // ln of the sum of e^logits

    void set(const double *logits, size_t K) {
        top = 0;
        for (size_t i = 1; i < K; ++i)
            if (logits[i] > logits[top]) top = i;
        rest = 0.0;
        for (size_t i = 0; i < K; ++i) {
            p[i] = std::exp(logits[i] - logits[top]);
            if (i != top) rest += p[i];
        }
        const double sum = 1.0 + rest;
        log_sum = logits[top] + std::log(sum);
        for (size_t i = 0; i < K; ++i) p[i] /= sum;
        rest /= sum;
        for (size_t i = 0; i < K; ++i) root[i] = std::sqrt(p[i]);
    }

    double others(size_t i) const { return i == top ? rest : 1.0 - p[i]; } // 1 - p_i

    // Replace w by H w.
    void bend(double *w, size_t K) const {
        const double high = w[top];
        for (size_t i = 0; i < K; ++i) w[i] -= high;
        const double mean = product(p, w, K);
        for (size_t i = 0; i < K; ++i) w[i] = p[i] * (w[i] - mean);
    }

    // Replace w by scale B'w.
    void project(double *w, size_t K, double scale) const {
        const double high = w[top];
        for (size_t i = 0; i < K; ++i) w[i] -= high;
        const double mean = product(p, w, K);
        for (size_t i = 0; i < K; ++i) w[i] = scale * root[i] * (w[i] - mean);
    }

    // Replace w by scale B w.
    void expand(double *w, size_t K, double scale) const {
        const double high = w[top], part = root[top];
        w[top] = 0.0;
        const double others = product(root, w, K), whole = others + part * high;
        for (size_t i = 0; i < K; ++i) w[i] = scale * root[i] * (w[i] - root[i] * whole);
        w[top] = scale * part * (high * rest - part * others);
    }

    // Replace each column of M (K rows of ld, `columns` of them used) by scale B' times it; mean is scratch of a row.
    void project_columns(double *M, size_t ld, size_t columns, size_t K, double scale, double *mean) const {
        double *high = M + top * ld;
        for (size_t j = 0; j < columns; ++j) mean[j] = 0.0;
        for (size_t i = 0; i < K; ++i) {
            double *row = M + i * ld;
            if (i == top) continue;
            const double by = p[i];
            for (size_t j = 0; j < columns; ++j) {
                row[j] -= high[j];
                mean[j] += by * row[j];
            }
        }
        for (size_t i = 0; i < K; ++i) {
            double *row = M + i * ld;
            const double by = scale * root[i];
            if (i == top)
                for (size_t j = 0; j < columns; ++j) row[j] = -by * mean[j];
            else
                for (size_t j = 0; j < columns; ++j) row[j] = by * (row[j] - mean[j]);
        }
    }
};

struct Memory {
    double *A, *P, *pull, *x, *numbers;
};

// All that a row means to one memory, and the search for its prediction.
class Regression {
  public:
    const size_t K, n, kd, ld; // the last two: strides of scratch matrices, padding after K + 1 and n columns
    const double curvature;
    double *s, *b; // (K): the scaled log-odds, and the prediction

    static size_t scratch(size_t K) {
        const size_t kd = padded(K + 1), n = 2 * K + 1, ld = padded(n);
        return (19 + BROYDEN_STEPS) * kd + 2 * ld + 2 * kd * ld + 7 * kd * kd + 2 * n * n;
    }

    Regression(size_t K, double *scratch)
        : K(K), n(2 * K + 1), kd(padded(K + 1)), ld(padded(n)),
          curvature(2.0 / (2.0 + std::log1p((double)(K - 1) * std::exp(2.0 * CLASS_REACH)))), at(scratch) {
        double **vectors[] = {&s,     &b,    &m0, &here.p, &here.root, &seen.p, &seen.root, &u,   &step,   &moved,
                              &trial, &c,    &F,  &F_trial, &inverse,  &pivots, &off,       &target, &offer};
        for (double **one : vectors) *one = take(kd);
        mean = take(ld), HX = take(ld);
        G = take(kd * ld), T = take(kd * ld);
        steps = take(BROYDEN_STEPS * kd);
        double **matrices[] = {&M0, &E, &factored, &Y, &M, &J, &D};
        for (double **one : matrices) *one = take(kd * kd);
        L = take(n * n), X = take(n * n);
        for (double *one : {M0, E, factored}) clear_padding(one, kd, K); // padding takes part in sums
        clear_padding(G, ld, n);
    }

    void set_row(const double *log_odds) {
        for (size_t k = 0; k < K; ++k)
            s[k] = CLASS_SCALE * smaller(larger(log_odds[k], -CLASS_MOST_LOG_ODDS), CLASS_MOST_LOG_ODDS);
    }

    // Fill m0 and M0 of the row, with the sums of M0 in its column K, and G = design P / beta. Returns whether its leverage is
    // usable.
    bool look(const Memory &one, double beta) {
        const double *shared = one.P + 2 * K * n, by = 1.0 / beta;
        for (size_t k = 0; k < K; ++k) {
            const double *slope = one.P + k * n, *offset = one.P + (K + k) * n;
            double *g = G + k * ld, *row = M0 + k * kd;
            const double size = s[k];
            for (size_t j = 0; j < n; ++j) g[j] = by * (size * (slope[j] + shared[j]) + offset[j]);
            const double common = g[2 * K];
            for (size_t l = 0; l < K; ++l) row[l] = s[l] * (g[l] + common) + g[K + l];
            m0[k] = size * (one.x[k] + one.x[2 * K]) + one.x[K + k];
        }
        double trace = 0.0, whole = 0.0;
        mirror(M0, kd, K); // rounding is not symmetric
        for (size_t k = 0; k < K; ++k) trace += M0[k * kd + k];
        for (size_t k = 0; k < K; ++k) whole += M0[k * kd + K] = sum_of(M0 + k * kd, K);
        return trace - whole / (double)K <= LEVERAGE_LIMIT;
    }

    // Fill b, the prediction whose price is the same whatever the label, or with many classes the one that minimises the loss
    // less the mean logit on top of the past.
    void predict() {
        const bool few = K <= (size_t)SOFTMAX_EXACT_CLASSES;
        if (few) least_loss(1.0, K, CLASS_GUESS);
        if (!few || !equalise_prices()) least_loss(1.0, K, CLASS_ACCURACY);
    }

    // Learn the label at the prediction b: once, or as the share `weight` of that. Beyond 1 the first copy is an ordinary round;
    // the others, at the logits played, would be as many steps as long as the first one, and diverge: they are expanded at
    // their own least loss on top of it.
    void learn(const Memory &one, size_t label, double weight, double beta) {
        one.numbers[SoftmaxNumber::AGE] += 1.0;
        settle(one, label, smaller(weight, 1.0), beta);
        if (!(weight > 1.0)) return;
        look(one, 1.0);
        least_loss(weight - 1.0, label, CLASS_ACCURACY / weight);
        settle(one, label, weight - 1.0, 1.0);
    }

    // Begin again with the log-odds as they are.
    void restart(const Memory &one) {
        for (size_t j = 0; j < n * n; ++j) one.A[j] = one.P[j] = 0.0;
        for (size_t j = 0; j < n; ++j) one.pull[j] = one.x[j] = 0.0, one.P[j * n + j] = 1.0 / CLASS_RIDGE;
        one.x[2 * K] = 1.0 / CLASS_SCALE;
        one.pull[2 * K] = CLASS_RIDGE / CLASS_SCALE;
        one.numbers[SoftmaxNumber::RIDGE] = CLASS_RIDGE;
        one.numbers[SoftmaxNumber::AGE] = 0.0;
        one.numbers[SoftmaxNumber::RESTARTS] += 1.0;
    }

    // m0 and M0 of a fresh memory, by which a row too far from all before it is predicted.
    void look_fresh() {
        for (size_t k = 0; k < K; ++k) {
            for (size_t l = 0; l < K; ++l) M0[k * kd + l] = s[k] * s[l] / CLASS_RIDGE;
            M0[k * kd + k] = (2.0 * s[k] * s[k] + 1.0) / CLASS_RIDGE;
            m0[k] = s[k] / CLASS_SCALE;
        }
        for (size_t k = 0; k < K; ++k) M0[k * kd + K] = sum_of(M0 + k * kd, K);
    }

  private:
    double *at; // where free scratch begins
    double *m0, *u, *step, *moved, *trial, *c, *F, *F_trial, *inverse, *pivots, *off, *target, *offer;
    double *mean, *HX, *steps, *G, *T, *M0, *E, *factored, *Y, *M, *J, *D, *L, *X;
    Softmax here, seen; // at the prediction in question, and where `factored` belongs

    void clear_padding(double *M, size_t stride, size_t columns) const {
        for (size_t k = 0; k < K; ++k) memset(M + k * stride + columns, 0, (stride - columns) * sizeof(double));
    }

    double *take(size_t count) {
        double *first = at;
        at += count;
        return first;
    }

    // E = I + scale B'M0 B, factored; T (K rows of kd) = sqrt(scale) B'(M0, M0 1). Returns whether that could be done.
    bool factor_inner(const Softmax &q, double scale, double *E, double *inverse) {
        const double by = std::sqrt(scale);
        memcpy(T, M0, K * kd * sizeof(double));
        q.project_columns(T, kd, K + 1, K, by, mean);
        q.project(mean, K, by); // M0 is symmetric: the means of its rows are those of its columns
        for (size_t i = 0; i < K; ++i) {
            double *row = E + i * kd;
            const double *from = T + i * kd, middle = from[q.top] + mean[i];
            for (size_t j = 0; j < K; ++j) row[j] = by * q.root[j] * (from[j] - middle);
            row[q.top] = -by * q.root[q.top] * mean[i];
            row[i] += 1.0;
        }
        return factor(E, kd, K, inverse);
    }

    // Minimise copies (ln sum exp b - b_label) + |b - m0|^2 / 2 in the norm of M0^-1, with the mean logit in place of b_label
    // for label K. The minimum is b = m0 - M0 u with u = copies (p(b) - e_label). Newton's method; as long as its steps fall
    // tenfold they are taken with the matrix factored before. They end where one changes no logit by more than `accuracy`.
    void least_loss(double copies, size_t label, double accuracy) {
        for (size_t i = 0; i < K; ++i) u[i] = 0.0, b[i] = m0[i];
        here.set(b, K);
        double value = copies * (here.log_sum - level_of(b, label)), before = 0.0;
        bool done = false;
        for (int round = 0; round < 200 && !done; ++round) {
            for (size_t i = 0; i < K; ++i) off[i] = copies * (here.p[i] - (label == K ? 1.0 / (double)K : 0.0));
            if (label != K) off[label] = -copies * here.others(label);
            for (size_t i = 0; i < K; ++i) off[i] = u[i] - off[i];
            const bool reuse = round > 0 && newton_step(copies, 0.1 * before);
            if (!reuse) {
                memcpy(seen.p, here.p, K * sizeof(double));
                memcpy(seen.root, here.root, K * sizeof(double));
                seen.top = here.top, seen.rest = here.rest;
                if (!factor_inner(seen, copies, factored, pivots)) return;
                mirror(factored, kd, K);
                newton_step(copies, INFINITY);
            }
            before = largest(step, K);
            symmetric_times(M0, kd, step, K, moved);
            const double size = larger(largest(u, K), 1.0);
            const bool close = !reuse && before <= 1e-8 * size; // so close that one more step is exact
            done = close || (largest(moved, K) <= accuracy && before <= accuracy * size);
            double length = 1.0, lower = value;
            const double fall = std::fabs(product(off, moved, K));
            for (int turn = 0; turn < 30; ++turn) {
                for (size_t i = 0; i < K; ++i) trial[i] = b[i] - length * moved[i];
                here.set(trial, K);
                for (size_t i = 0; i < K; ++i) offer[i] = u[i] + length * step[i];
                lower = copies * (here.log_sum - level_of(trial, label)) + 0.5 * quadratic(trial);
                if (reuse || done || lower <= value - 1e-6 * length * fall) break;
                length *= 0.5;
            }
            memcpy(u, offer, K * sizeof(double));
            memcpy(b, trial, K * sizeof(double));
            value = lower;
        }
    }

    // u'M0 u, from M0 u = m0 - b.
    double quadratic(const double *logits) const {
        double sum = 0.0;
#pragma omp simd reduction(+ : sum)
        for (size_t i = 0; i < K; ++i) sum += offer[i] * (m0[i] - logits[i]);
        return sum;
    }

    double level_of(const double *logits, size_t label) const {
        return label == K ? sum_of(logits, K) / (double)K : logits[label];
    }

    // step = -(I + copies H M0)^-1 off, with H where `factored` belongs. Returns whether no number of it exceeds `most`.
    bool newton_step(double copies, double most) {
        const double by = std::sqrt(copies);
        symmetric_times(M0, kd, off, K, step);
        seen.project(step, K, by);
        solve_factored(factored, kd, pivots, K, step);
        seen.expand(step, K, by);
        for (size_t i = 0; i < K; ++i) step[i] -= off[i];
        return largest(step, K) <= most;
    }

    // From the b and the factors of least_loss find the one with equal prices, the root of F. Where M0 is small the derivative
    // of F is nearly I + M0 H, which is factored already: Broyden's method begins with it, and its steps serve as long as they
    // bring F down fourfold. Otherwise Newton's method follows. Returns whether the root was found.
    bool equalise_prices() {
        double size = distance(b, F);
        size_t taken = 0; // steps of Broyden's method
        bool newton = false;
        for (int round = 0; round < 40 && size > CLASS_ACCURACY * (1.0 + spread(b)); ++round) {
            if (!newton) {
                double *next = steps + taken * kd;
                broyden_step(taken, next);
                for (size_t i = 0; i < K; ++i) trial[i] = b[i] + next[i];
                const double there = distance(trial, F_trial);
                const bool better = there <= 0.25 * size;
                if (better) accept(size, there);
                newton = !better || ++taken == BROYDEN_STEPS;
                continue;
            }
            distance(b, F);
            derivative();
            for (size_t i = 0; i < K; ++i) step[i] = -F[i];
            if (!solve_in_place(J, step, K, 1)) break;
            double length = smaller(1.0, 4.0 / larger(largest(step, K), 1e-300));
            bool better = false;
            for (int turn = 0; turn < 20 && !better; ++turn, length *= 0.5) {
                for (size_t i = 0; i < K; ++i) trial[i] = b[i] + length * step[i];
                const double there = distance(trial, F_trial);
                better = there < size * (1.0 - 1e-4 * length);
                if (better) accept(size, there);
            }
            if (!better) break;
        }
        return size <= 1e-6 * larger(1.0, spread(b));
    }

    // z = -J^-1 F with Broyden's J after so many steps, each of which added a matrix of rank one to the first J = I + M0 H.
    void broyden_step(size_t taken, double *z) {
        memcpy(step, F, K * sizeof(double));
        seen.project(step, K, 1.0);
        solve_factored(factored, kd, pivots, K, step);
        seen.expand(step, K, 1.0);
        symmetric_times(M0, kd, step, K, z);
        for (size_t i = 0; i < K; ++i) z[i] -= F[i];
        subtract_mean(z, K);
        for (size_t j = 0; j < taken; ++j) {
            const double *before = steps + j * kd, part = product(before, z, K) / product(before, before, K);
            if (j + 1 < taken)
                add_scaled(z, part, before + kd, K);
            else
                for (size_t i = 0; i < K; ++i) z[i] /= 1.0 - part;
        }
    }

    void accept(double &size, double there) {
        memcpy(b, trial, K * sizeof(double));
        memcpy(F, F_trial, K * sizeof(double));
        size = there;
    }

    // The largest logit in size, less their mean.
    double spread(const double *logits) const {
        const double middle = sum_of(logits, K) / (double)K;
        double most = 0.0;
        for (size_t i = 0; i < K; ++i) most = larger(std::fabs(logits[i] - middle), most);
        return most;
    }

    // Fill F (K) at the prediction `logits`, and Y with M = (M0^-1 + k H)^-1 = M0 - Y'Y. Returns |F|.
    double distance(const double *logits, double *F) {
        const double k = curvature, count = (double)K;
        here.set(logits, K);
        if (!factor_inner(here, k, E, inverse)) return INFINITY;
        memcpy(Y, T, K * kd * sizeof(double));
        solve_transposed(E, kd, inverse, K, Y, kd, K + 1);
        // the diagonal of C M C, C = I - 1 1' / K, from the diagonal of M and its sums
        double whole = 0.0;
        for (size_t i = 0; i < K; ++i) c[i] = M0[i * kd + i], moved[i] = M0[i * kd + K];
        for (size_t j = 0; j < K; ++j) {
            const double *y = Y + j * kd, by = y[K];
            for (size_t i = 0; i < K; ++i) c[i] -= y[i] * y[i], moved[i] -= by * y[i];
        }
        whole = sum_of(moved, K);
        for (size_t i = 0; i < K; ++i) c[i] += (whole / count - 2.0 * moved[i]) / count;
        subtract_mean(c, K);
        memcpy(moved, c, K * sizeof(double));
        here.bend(moved, K);
        for (size_t i = 0; i < K; ++i) moved[i] = here.p[i] - 1.0 / count - 0.5 * k * moved[i];
        symmetric_times(M0, kd, moved, K, F);
        for (size_t i = 0; i < K; ++i) F[i] += logits[i] - m0[i] - 0.5 * c[i];
        subtract_mean(F, K);
        const double size = std::sqrt(product(F, F, K));
        return size < INFINITY ? size : INFINITY;
    }

    // J = the derivative of F where `distance` was last asked for, on vectors that sum to 0; it leaves a common constant as it
    // is.
    void derivative() {
        const double k = curvature, *p = here.p;
        memcpy(M, M0, K * kd * sizeof(double));
        subtract_squares(M, kd, K, 1.0, Y, kd, K);
        for (size_t i = 0; i < K; ++i) subtract_mean(M + i * kd, K);
        subtract_column_means(M, kd);
        // D = -k ((M * M) H - 2 (M p) (M H)), the derivative of the diagonal, then of c
        for (size_t i = 0; i < K; ++i) {
            const double *row = M + i * kd, middle = product(row, p, K);
            double square = 0.0;
            for (size_t j = 0; j < K; ++j) square += row[j] * row[j] * p[j];
            for (size_t j = 0; j < K; ++j)
                D[i * kd + j] = -k * p[j] * (row[j] * row[j] - square - 2.0 * middle * (row[j] - middle));
        }
        subtract_column_means(D, kd);
        // Y = H - k/2 times the derivative of H c
        const double middle = product(p, c, K);
        for (size_t j = 0; j < K; ++j) mean[j] = 0.0;
        for (size_t i = 0; i < K; ++i) add_scaled(mean, p[i], D + i * kd, K);
        for (size_t i = 0; i < K; ++i) {
            double *row = Y + i * kd;
            const double far = c[i] - middle;
            for (size_t j = 0; j < K; ++j)
                row[j] = -p[i] * p[j] + 0.5 * k * p[i] * (p[j] * (far + c[j] - middle) - (D[i * kd + j] - mean[j]));
            row[i] += p[i] - 0.5 * k * p[i] * far;
        }
        for (size_t i = 0; i < K; ++i) {
            double *row = J + i * K;
            for (size_t j = 0; j < K; ++j) row[j] = -0.5 * D[i * kd + j];
            for (size_t l = 0; l < K; ++l) add_scaled(row, M0[i * kd + l], Y + l * kd, K);
            row[i] += 1.0;
        }
        subtract_column_means(J, K);
        for (size_t j = 0; j < K * K; ++j) J[j] += 1.0 / (double)K;
    }

    void subtract_column_means(double *A, size_t stride) {
        for (size_t j = 0; j < K; ++j) mean[j] = 0.0;
        for (size_t i = 0; i < K; ++i) add_scaled(mean, 1.0 / (double)K, A + i * stride, K);
        for (size_t i = 0; i < K; ++i) add_scaled(A + i * stride, -1.0, mean, K);
    }

    // Add the quadratic of `copies` rows with this label around b, after the past was discounted by beta.
    void settle(const Memory &one, size_t label, double copies, double beta) {
        const double h = copies * curvature;
        here.set(b, K);
        const double *p = here.p;
        memcpy(target, b, K * sizeof(double));
        here.bend(target, K);
        for (size_t k = 0; k < K; ++k) target[k] = h * target[k] - copies * (k == label ? -here.others(k) : p[k]);
        for (size_t j = 0; j < n; ++j) one.pull[j] *= beta;
        for (size_t k = 0; k < K; ++k) one.pull[k] += s[k] * target[k], one.pull[K + k] += target[k];
        one.pull[2 * K] += product(s, target, K);
        double most = 0.0, leverage = 0.0;
        add_information(one, h, beta);
        for (size_t j = 0; j < n; ++j) most = larger(one.A[j * n + j], most);
        for (size_t k = 0; k < K; ++k) leverage = larger(h * p[k] * here.others(k) * M0[k * kd + k], leverage);
        double ridge = beta * one.numbers[SoftmaxNumber::RIDGE];
        const double least = larger(SOFTMAX_LEAST_RIDGE * CLASS_RIDGE, SOFTMAX_LEAST_SHARE * most);
        if (ridge < least || leverage > SOFTMAX_FRESH_LEVERAGE || one.numbers[SoftmaxNumber::AGE] >= (double)SOFTMAX_FRESH_AGE) {
            if (ridge < least) ridge = 2.0 * least;
            if (!invert(one, ridge, larger(most, ridge))) return restart(one);
            one.numbers[SoftmaxNumber::AGE] = 0.0;
        } else if (copies > 0.0) {
            // P / beta - W'W with W = U^-T sqrt(h) B'G is the new covariance
            if (!factor_inner(here, h, E, inverse)) return restart(one);
            memcpy(T, G, K * ld * sizeof(double));
            here.project_columns(T, ld, n, K, std::sqrt(h), mean);
            solve_transposed(E, kd, inverse, K, T, ld, n);
            subtract_squares(one.P, n, n, 1.0 / beta, T, ld, K);
        } else {
            for (size_t j = 0; j < n * n; ++j) one.P[j] *= 1.0 / beta;
        }
        one.numbers[SoftmaxNumber::RIDGE] = ridge;
        symmetric_times(one.P, n, one.pull, n, one.x);
    }

    // A = beta A + design' h H design.
    void add_information(const Memory &one, double h, double beta) {
        const double *p = here.p;
        memcpy(moved, s, K * sizeof(double));
        here.bend(moved, K); // H s
        for (size_t k = 0; k < K; ++k) {
            double *slope = one.A + k * n, *offset = one.A + (K + k) * n;
            const double by = -h * p[k], size = s[k];
            for (size_t l = 0; l < K; ++l) HX[K + l] = by * p[l];
            HX[K + k] = h * p[k] * here.others(k);
            for (size_t l = 0; l < K; ++l) HX[l] = HX[K + l] * s[l];
            HX[2 * K] = h * moved[k];
            for (size_t j = 0; j < n; ++j) {
                slope[j] = beta * slope[j] + size * HX[j];
                offset[j] = beta * offset[j] + HX[j];
            }
        }
        double *shared = one.A + 2 * K * n;
        for (size_t l = 0; l < K; ++l) {
            shared[l] = beta * shared[l] + s[l] * (h * moved[l]);
            shared[K + l] = beta * shared[K + l] + h * moved[l];
        }
        shared[2 * K] = beta * shared[2 * K] + h * product(s, moved, K);
    }

    // P = (A + ridge I + gauge 1 1' over the offsets)^-1. A common offset changes no probability, so that no row informs about
    // it; without the gauge it would have a variance beside which the others lose their digits.
    bool invert(const Memory &one, double ridge, double gauge) {
        memcpy(L, one.A, n * n * sizeof(double));
        for (size_t j = 0; j < n; ++j) L[j * n + j] += ridge;
        for (size_t k = K; k < 2 * K; ++k)
            for (size_t l = K; l < 2 * K; ++l) L[k * n + l] += gauge / (double)K;
        if (!cholesky(L, n, -1.0)) return false;
        invert_factor(L, n, X, one.P);
        return true;
    }
};

} // namespace
