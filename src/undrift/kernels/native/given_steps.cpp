// `Mix`: mixers of predictions made elsewhere, one for each step ahead, which learn from each other. The twin, which says what they
// are, is tests/twins/given_mixer.py.
#include <nanobind/nanobind.h>

#include <limits>
#include <vector>

#include "array.h"
#include "given_mixer.h"

namespace nb = nanobind;

namespace undrift {
namespace {

class GivenSteps {
  public:
    GivenSteps(const Matrix &numbers, const Vector &last, const State &sums, const Matrix *products, int loss, double level,
               size_t offered)
        : mixer{offered, false, loss, level, true}, steps(sums.shape(0)), count(mixer.size()), numbers(numbers.data()), last(last.data()),
          sums(sums.data()), products(products && products->shape(0) ? products->data() : nullptr), shared(count * GivenMember::SIZE),
          members(count) {
        if (!steps || numbers.shape(0) != steps + 1 || numbers.shape(1) != GivenNumber::SIZE || last.shape(0) != steps ||
            sums.shape(1) != count || sums.shape(2) != GivenMember::SIZE ||
            (this->products && (products->shape(0) != count || products->shape(1) != count)) || loss < 0 ||
            loss >= int(GivenLoss::LOGISTIC) || !(level > 0.0) || !(level < 1.0))
            throw nb::value_error("kernels: the arrays of the mixer do not fit together");
    }

    // The prediction for a row of the step, and the weights it was made with; if all answers are missing, the last label and zeros.
    double predict(size_t step, const double *z, double *weights_out) {
        mixer.gather(z, 0.0, members.data());
        const bool some = mixer.weigh(weighed(step), unit(step), members.data(), weights_out);
        return some ? mixer.combine(members.data(), weights_out) : last[step];
    }

    // Learn the label of a row for which yhat was served, unless it is NaN. If all answers of the row are missing, it is only kept
    // as the last label of the step.
    void learn(size_t step, const double *z, double yhat, double y, double late) {
        if (y != y) return;
        last[step] = y;
        mixer.gather(z, 0.0, members.data());
        if (members.back() != members.back()) return; // the median is missing if all answers are
        double *activity = steps > 1 ? numbers + steps * GivenNumber::SIZE : nullptr;
        mixer.learn(numbers + step * GivenNumber::SIZE, activity, own(step), weighed(step), members.data(), yhat, y, late);
        if (!products) return;
        for (double &member : members) member = member == member ? yhat - member : 0.0;
        for (size_t i = 0; i < count; ++i)
            for (size_t j = 0; j < count; ++j) products[i * count + j] += members[i] * members[j];
    }

    size_t steps_ahead() const { return steps; }
    size_t size() const { return count; }

  private:
    GivenMixer mixer;
    size_t steps, count;
    double *numbers, *last, *sums, *products;
    std::vector<double> shared, members;

    double *own(size_t step) { return sums + step * count * GivenMember::SIZE; }
    double unit(size_t step) const {
        const double level = numbers[step * GivenNumber::SIZE + GivenNumber::UNIT];
        return steps > 1 ? level * numbers[steps * GivenNumber::SIZE + GivenNumber::UNIT] : level;
    }

    // The sums that a step's weights follow from: its own, and those of all other steps times a share.
    const double *weighed(size_t step) {
        if (steps == 1) return sums;
        const double share = 1.0 / std::sqrt(static_cast<double>(steps - 1));
        for (size_t k = 0; k < count; ++k) {
            double regret = 0.0, squares = 0.0;
            for (size_t other = 0; other < steps; ++other) {
                const double *sum = own(other) + k * GivenMember::SIZE;
                regret += other == step ? 0.0 : sum[GivenMember::REGRET];
                squares += other == step ? 0.0 : sum[GivenMember::SQUARES];
            }
            const double *sum = own(step) + k * GivenMember::SIZE;
            shared[k * GivenMember::SIZE + GivenMember::REGRET] = sum[GivenMember::REGRET] + share * regret;
            shared[k * GivenMember::SIZE + GivenMember::SQUARES] = sum[GivenMember::SQUARES] + share * share * squares;
        }
        return shared.data();
    }
};

void need(bool fine) {
    if (!fine) throw nb::value_error("kernels: the arrays of the mixer do not fit together");
}

void given_predict(Matrix numbers, Vector last, State sums, int loss, double level, size_t step, Inputs Z, Vector yhat,
                   Matrix weights) {
    GivenSteps mix(numbers, last, sums, nullptr, loss, level, Z.shape(1));
    need(yhat.shape(0) == Z.shape(0) && weights.shape(0) == Z.shape(0) && weights.shape(1) == mix.size() && step < mix.steps_ahead());
    nb::gil_scoped_release unlocked;
    for (size_t t = 0; t < Z.shape(0); ++t)
        yhat.data()[t] =
            mix.predict((step + t) % mix.steps_ahead(), Z.data() + t * Z.shape(1), weights.data() + t * mix.size());
}

void given_learn(Matrix numbers, Vector last, State sums, Matrix products, int loss, double level, size_t step, Input z, double yhat,
                 double y, double late) {
    GivenSteps mix(numbers, last, sums, &products, loss, level, z.shape(0));
    need(step < mix.steps_ahead());
    mix.learn(step, z.data(), yhat, y, late);
}

void given_play(Matrix numbers, Vector last, State sums, Matrix products, int loss, double level, Inputs Z, Input y, Vector yhat,
                Matrix weights) {
    GivenSteps mix(numbers, last, sums, &products, loss, level, Z.shape(1));
    const size_t rows = Z.shape(0), steps = mix.steps_ahead();
    need(y.shape(0) == rows && yhat.shape(0) == rows && weights.shape(0) == rows && weights.shape(1) == mix.size() && rows % steps == 0);
    nb::gil_scoped_release unlocked;
    for (size_t t = 0; t < rows; t += steps) {
        for (size_t h = 0; h < steps; ++h)
            yhat.data()[t + h] = mix.predict(h, Z.data() + (t + h) * Z.shape(1), weights.data() + (t + h) * mix.size());
        for (size_t h = 0; h < steps; ++h)
            mix.learn(h, Z.data() + (t + h) * Z.shape(1), yhat.data()[t + h], y.data()[t + h], static_cast<double>(steps - h));
    }
}

} // namespace
} // namespace undrift

void bind_given(nb::module_ &m) {
    using namespace undrift;
    const auto a = [](const char *name) { return nb::arg(name).noconvert(); };
    m.def("given_predict", &given_predict, a("numbers"), a("last"), a("sums"), nb::arg("loss"), nb::arg("level"), nb::arg("step"), a("Z"),
          a("yhat"), a("weights"));
    m.def("given_learn", &given_learn, a("numbers"), a("last"), a("sums"), a("products"), nb::arg("loss"), nb::arg("level"),
          nb::arg("step"), a("z"), nb::arg("yhat"), nb::arg("y"), nb::arg("late"));
    m.def("given_play", &given_play, a("numbers"), a("last"), a("sums"), a("products"), nb::arg("loss"), nb::arg("level"), a("Z"),
          a("y"), a("yhat"), a("weights"));
}
