// Python's handle on whole rounds of an ensemble: the arrays are looked at once, a streaming call passes a row and a label.
#include <nanobind/nanobind.h>

#include <cmath>

#include "array.h"
#include "dispatch.h"
#include "keys.h"
#include "lock.h"

namespace nb = nanobind;
using namespace undrift;

using Vector = Array<double, 1>;
using Matrix = Array<double, 2>;
using State = Array<double, 3>;
using Input = Array<const double, 1>;
using Inputs = Array<const double, 2>;

namespace {

constexpr size_t BRIEF = 50000; // multiply-adds; above this other threads may run meanwhile

template <class T, int ND> Array<T, ND> wanted(nb::handle o, const char *name) {
    Array<T, ND> a;
    if (!a.read(o.ptr())) throw nb::type_error((std::string("Round: ") + name + " must be a contiguous float64 array").c_str());
    return a;
}

class Rounds {
    Round r{};
    std::vector<int64_t> at, hint;
    size_t slim = table().slot_lanes; // of slots; those made at one level do not serve another
    nb::list kept; // the arrays that `r` points into
    nb::object lock; // of the model these rounds belong to, or None

    Lock *its_lock() const { return lock.is_none() ? nullptr : nb::inst_ptr<Lock>(lock); }

    // Rounds that the model closed before this one; only asked while the lock is held.
    static int64_t closed(nb::handle model) { return nb::cast<int64_t>(nb::getattr(model, counted())); }

    static nb::handle counted() { // made once and kept: a streaming call looks it up twice
        static PyObject *const name = PyUnicode_InternFromString("rounds");
        return name;
    }

    void need(bool fits, const char *what) const {
        if (!fits) throw nb::value_error((std::string("Round: ") + what + " do not fit together").c_str());
    }

    // One call's rounds: a copy of what stays the same, and the call's own rows, labels and outputs. Nothing of a call is
    // kept in this object, so that several threads may predict at once while the interpreter is unlocked.
    Round with(int64_t first, const double *Z, size_t rows, const double *y, double *yhat, double *weights) const {
        Round call = r;
        call.run.first = first;
        call.run.Z = Z;
        call.run.rounds = rows;
        call.run.y = y;
        call.yhat = yhat;
        call.mix.weights = weights;
        return call;
    }

    // Run a call unless its numbers may not be used; the status is that of `refusal`.
    template <class F> static int64_t run(const Table &level, F work, const Round &call) {
        const Run &run = call.run;
        const auto all = [&] {
            const int64_t bad = level.refusal(run.Z, run.rounds * run.dim, run.y, run.y ? run.rounds : 0, call.binary);
            if (!bad) work(call, scratch_of(level.round_scratch(call)));
            return bad;
        };
        if (run.rounds * run.learners * run.dim * run.dim < BRIEF) return all();
        nb::gil_scoped_release unlocked;
        return all();
    }

  public:
    Rounds(bool binary, nb::handle state, nb::handle beta, nb::handle bend, nb::handle places, nb::handle hints,
           nb::handle last, nb::handle stability, nb::object mixer, nb::object lock)
        : lock(std::move(lock)) {
        if (!this->lock.is_none() && !nb::isinstance<Lock>(this->lock)) throw nb::type_error("Round: lock must be a Lock or None");
        const auto s = wanted<double, 3>(state, "state");
        const auto b = wanted<const double, 1>(beta, "beta"), c = wanted<const double, 1>(bend, "bend");
        const auto p = wanted<const double, 1>(places, "at"), q = wanted<const double, 1>(hints, "hint");
        const auto l = wanted<double, 1>(last, "last"), k = wanted<double, 1>(stability, "stability");
        for (nb::handle one : {state, beta, bend, last, stability}) kept.append(one);
        r.binary = binary;
        r.run.state = s.data();
        r.run.lanes = s.shape(2);
        r.run.learners = b.shape(0);
        r.run.beta = b.data();
        r.run.bend = c.data();
        while (InformationLayout(r.run.dim).size < s.shape(1)) ++r.run.dim;
        r.members = p.shape(0);
        need((r.run.lanes == 1 || r.run.lanes == LANES) && s.shape(1) == InformationLayout(r.run.dim).size && r.run.learners &&
                 s.shape(0) * r.run.lanes >= r.run.learners && c.shape(0) == (binary ? r.run.learners : 0),
             "state, beta and bend");
        need(r.members && q.shape(0) == r.members && k.shape(0) == r.members && l.shape(0) == 1,
             "at, hint, last and stability");
        for (size_t i = 0; i < r.members; ++i) {
            at.push_back((int64_t)p.data()[i]);
            hint.push_back((int64_t)q.data()[i]);
            need(at[i] >= -1 && at[i] < (int64_t)r.run.learners && hint[i] >= 0 && hint[i] < (int64_t)Hint::SIZE, "at and hint");
        }
        while (r.plain < r.members && at[r.plain] == (int64_t)r.plain && (binary || hint[r.plain] == hint[0])) ++r.plain;
        r.at = at.data();
        r.hint = hint.data();
        r.last = l.data();
        r.stability = k.data();
        if (mixer.is_none())
            need(r.members == 1, "members and mixer");
        else
            mix(nb::cast<nb::tuple>(mixer));
    }

    void mix(const nb::tuple &t) { // log_weights, log_prior, share, state, rule, scale, losses, clipped_losses
        need(t.size() == 8, "the mixer's parts");
        const auto w = wanted<double, 1>(t[0], "log_weights"), state = wanted<double, 1>(t[3], "the mixer's state");
        const auto p = wanted<const double, 1>(t[1], "log_prior");
        const auto l = wanted<double, 1>(t[6], "losses"), c = wanted<double, 1>(t[7], "clipped_losses");
        const size_t n = r.members;
        Mix &mix = r.mix;
        mix.rule = nb::cast<int>(t[4]);
        need(w.shape(0) == n && p.shape(0) == n && l.shape(0) == n && c.shape(0) == n && state.shape(0) == MixerState::SIZE &&
                 mix.rule >= 0 && (size_t)mix.rule < MixingRule::SIZE,
             "the mixer's arrays");
        kept.append(t);
        mix.log_weights = w.data();
        mix.log_prior = p.data();
        mix.members = n;
        mix.share = nb::cast<double>(t[2]);
        mix.log_one_minus_share = std::log1p(-mix.share);
        mix.state = state.data();
        mix.scale = nb::cast<double>(t[5]);
        mix.log_members = std::fmax(1.0, std::log((double)n));
        mix.losses = l.data();
        mix.clipped_losses = c.data();
    }

    bool learn(nb::handle model, nb::handle z, nb::handle y) const {
        Array<const double, 1> row;
        if (!PyFloat_Check(y.ptr()) || !row.read(z.ptr()) || row.shape(0) != r.run.dim) return false;
        const double label = PyFloat_AsDouble(y.ptr());
        double yhat;
        const Holding held(its_lock(), true);
        const int64_t first = closed(model);
        if (run(table(), table().round_play, with(first, row.data(), 1, &label, &yhat, nullptr))) return false;
        nb::setattr(model, counted(), nb::int_(first + 1));
        return true;
    }

    nb::object predict(nb::handle model, nb::handle z) const {
        Array<const double, 1> row;
        if (!row.read(z.ptr()) || row.shape(0) != r.run.dim) return nb::none();
        double yhat;
        const Holding held(its_lock(), false);
        const int64_t first = closed(model);
        if (run(table(), table().round_predict, with(first, row.data(), 1, nullptr, &yhat, nullptr))) return nb::none();
        return nb::steal(PyFloat_FromDouble(yhat));
    }

    int64_t predict_rows(int64_t first, Inputs Z, Vector yhat) const {
        need(Z.shape(1) == r.run.dim && yhat.shape(0) == Z.shape(0) && first >= 0, "Z and yhat");
        return run(table(), table().round_predict, with(first, Z.data(), Z.shape(0), nullptr, yhat.data(), nullptr));
    }

    int64_t play(int64_t first, Inputs Z, Input y, Vector yhat, Matrix weights) const {
        const size_t n = Z.shape(0);
        need(Z.shape(1) == r.run.dim && y.shape(0) == n && yhat.shape(0) == n && first >= 0, "Z, y and yhat");
        need(!weights.shape(0) || (weights.shape(0) == n && weights.shape(1) == r.members), "weights");
        double *before = weights.shape(0) ? weights.data() : nullptr;
        return run(table(), table().round_play, with(first, Z.data(), n, y.data(), yhat.data(), before));
    }

    size_t slot() const { return table().slot_size(r); }

    nb::tuple slot_shape() const {
        const size_t lanes = r.run.lanes == 1 ? 1 : slim;
        return nb::make_tuple((r.run.learners + lanes - 1) / lanes, InformationLayout(r.run.dim).size, lanes);
    }

    int64_t play_keys(Matrix states, Integers rounds, Indices slots, Inputs Z, Input y, Vector yhat,
                      size_t threads) const {
        const size_t n = slots.shape(0);
        need(slim == table().slot_lanes && states.shape(1) == table().slot_size(r) && rounds.shape(0) == states.shape(0), "states and rounds");
        need(Z.shape(0) == n && Z.shape(1) == r.run.dim && y.shape(0) == n && yhat.shape(0) == n, "Z, y and yhat");
        for (size_t i = 0; i < n; ++i)
            need(slots.data()[i] >= 0 && (size_t)slots.data()[i] < states.shape(0), "slots and states");
        const Keys keys{states.data(), rounds.data(), slots.data(), n, Z.data(), y.data(), yhat.data()};
        const Table &level = table();
        nb::gil_scoped_release unlocked;
        const int64_t bad = level.refusal(keys.Z, n * r.run.dim, keys.y, n, r.binary);
        if (!bad) share_keys(level, r, keys, threads);
        return bad;
    }
};

} // namespace

void bind_round(nb::module_ &mod) {
    const auto a = [](const char *name) { return nb::arg(name).noconvert(); };
    nb::class_<Rounds>(mod, "Round", "Whole rounds of an ensemble over its own arrays, which are changed in place.")
        .def(nb::init<bool, nb::handle, nb::handle, nb::handle, nb::handle, nb::handle, nb::handle, nb::handle, nb::object, nb::object>(),
             nb::arg("binary"), nb::arg("state"), nb::arg("beta"), nb::arg("bend"), nb::arg("at"), nb::arg("hint"),
             nb::arg("last"), nb::arg("stability"), nb::arg("mixer").none(),
             nb::arg("lock") = nb::none())
        .def("learn", &Rounds::learn, nb::arg("model"), nb::arg("z").none(), nb::arg("y").none(),
             "Close one round and count it in model.rounds, holding the lock alone; False, and nothing happens, if z or y "
             "is not plainly usable.")
        .def("predict", &Rounds::predict, nb::arg("model"), nb::arg("z").none(),
             "Return the prediction for a row after model.rounds rounds, sharing the lock; None if z is not plainly usable.")
        .def("predict_rows", &Rounds::predict_rows, nb::arg("first"), a("Z"), a("yhat"),
             "Fill the predictions for rows; 0, or where the number is that may not be used.")
        .def("play", &Rounds::play, nb::arg("first"), a("Z"), a("y"), a("yhat"), a("weights"),
             "Close rounds; 0, or where the number is that may not be used.")
        .def("slot", &Rounds::slot, "Numbers that one key's ensemble takes in the states of play_keys.")
        .def("slot_shape", &Rounds::slot_shape, "Shape of the memories' state in a slot: (groups, length, lanes).")
        .def("play_keys", &Rounds::play_keys, a("states"), a("rounds"), a("slots"), a("Z"), a("y"), a("yhat"),
             nb::arg("threads") = 1, "Close a round of ensemble slots[i] with row i, one record after the other.");
}
