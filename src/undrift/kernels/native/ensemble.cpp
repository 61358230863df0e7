// Python's handle on whole rounds of an ensemble: the arrays are read once, a streaming call passes a row and a label.
#include <nanobind/nanobind.h>

#include <cmath>

#include "array.h"
#include "dispatch.h"
#include "lock.h"
#include "row_input.h"

namespace nb = nanobind;
using namespace undrift;

namespace {

constexpr size_t GIL_WORK = 50000; // multiply-adds; calls with fewer keep the interpreter locked, which costs less

template <class A> A read_array(nb::handle o, const char *name) {
    A a;
    if (!a.read(o.ptr()))
        throw nb::type_error((std::string("EnsembleKernel: ") + name + " must be a contiguous array of its type").c_str());
    return a;
}

class EnsembleKernel {
    EnsembleCall r{};
    const size_t slot_lanes = table().slot_lanes; // slots made at one level do not serve another
    nb::list keep_alive;                          // the arrays that `r` points into
    nb::object lock;                              // of the model these rounds belong to, or None

    Lock *lock_pointer() const { return lock.is_none() ? nullptr : nb::inst_ptr<Lock>(lock); }

    static nb::handle rounds_name() { // made once: a streaming call looks the attribute up twice
        static PyObject *const name = PyUnicode_InternFromString("rounds");
        return name;
    }

    // The rounds that a model has closed; only asked while its lock is held.
    static int64_t rounds_of(nb::handle model) { return nb::cast<int64_t>(nb::getattr(model, rounds_name())); }

    static void require(bool fits, const char *what) {
        if (!fits) throw nb::value_error((std::string("EnsembleKernel: ") + what + " do not fit together").c_str());
    }

    template <class A> A attach(nb::handle o, const char *name) {
        keep_alive.append(o);
        return read_array<A>(o, name);
    }

    // One call: a copy of what stays the same, and the call's own rows, labels and outputs. Nothing of a call is kept in
    // this object, so that several threads may predict at once while the interpreter is unlocked.
    EnsembleCall call_with(int64_t first, const double *Z, size_t rows, const double *y, double *yhat,
                           double *weights = nullptr) const {
        EnsembleCall call = r;
        call.run.first = first;
        call.run.Z = Z;
        call.run.rounds = rows;
        call.run.y = y;
        call.yhat = yhat;
        call.mix.weights = weights;
        return call;
    }

    // Run a call unless its numbers may not be used; returns the status of `invalid_input`.
    template <class F> static int64_t run(const KernelTable &level, F work, const EnsembleCall &call) {
        const LearnerCall &run = call.run;
        const size_t labels = run.y ? run.rounds : 0;
        const auto checked = [&] {
            const int64_t status = level.invalid_input(run.Z, run.rounds * run.dim, run.y, labels, call.binary);
            if (!status) work(call, scratch_of(level.ensemble_scratch(call)));
            return status;
        };
        if (run.rounds * run.learners * run.dim * run.dim < GIL_WORK) return checked();
        nb::gil_scoped_release unlocked;
        return checked();
    }

    void set_mixer(nb::handle mixer) { // MixerArguments
        const auto array = [&](const char *name) { return attach<Vector>(mixer.attr(name), name); };
        const auto log_weights = array("log_weights"), state = array("state"), losses = array("losses");
        const auto clipped_losses = array("clipped_losses");
        const auto log_prior = attach<Input>(mixer.attr("log_prior"), "log_prior");
        const size_t n = r.members;
        MixerCall &mix = r.mix;
        mix.rule = nb::cast<int>(mixer.attr("rule"));
        require(log_weights.shape(0) == n && log_prior.shape(0) == n && losses.shape(0) == n &&
                    clipped_losses.shape(0) == n && state.shape(0) == MixerState::SIZE && mix.rule >= 0 &&
                    (size_t)mix.rule < MixingRule::SIZE,
                "the mixer's arrays");
        mix.log_weights = log_weights.data();
        mix.log_prior = log_prior.data();
        mix.members = n;
        mix.share = nb::cast<double>(mixer.attr("share"));
        mix.log_one_minus_share = std::log1p(-mix.share);
        mix.state = state.data();
        mix.scale = nb::cast<double>(mixer.attr("scale"));
        mix.log_members = std::fmax(1.0, std::log((double)n));
        mix.losses = losses.data();
        mix.clipped_losses = clipped_losses.data();
    }

  public:
    EnsembleKernel(bool binary, nb::handle state, nb::handle beta, nb::handle inverse_curvature, nb::handle leader,
                   nb::handle hint, nb::handle last_label, nb::handle stability, nb::handle mixer, nb::object lock)
        : lock(std::move(lock)) {
        if (!this->lock.is_none() && !nb::isinstance<Lock>(this->lock))
            throw nb::type_error("EnsembleKernel: lock must be a Lock or None");
        const auto information = attach<State>(state, "state");
        const auto betas = attach<Input>(beta, "beta");
        const auto curvatures = attach<Input>(inverse_curvature, "inverse_curvature");
        const auto leaders = attach<Indices>(leader, "leader"), hints = attach<Indices>(hint, "hint");
        const auto last = attach<Vector>(last_label, "last_label"), sums = attach<Vector>(stability, "stability");
        r.binary = binary;
        LearnerCall &run = r.run;
        run.state = information.data();
        run.lanes = information.shape(2);
        run.learners = betas.shape(0);
        run.beta = betas.data();
        run.inverse_curvature = curvatures.data();
        while (InformationLayout(run.dim).size < information.shape(1)) ++run.dim;
        require((run.lanes == 1 || run.lanes == LANES) && information.shape(1) == InformationLayout(run.dim).size &&
                    run.learners && information.shape(0) * run.lanes >= run.learners &&
                    curvatures.shape(0) == (binary ? run.learners : 0),
                "state, beta and inverse_curvature");
        r.members = leaders.shape(0);
        r.leader = leaders.data();
        r.hint = hints.data();
        r.last_label = last.data();
        r.stability = sums.data();
        require(r.members && hints.shape(0) == r.members && sums.shape(0) == r.members && last.shape(0) == 1,
                "leader, hint, last_label and stability");
        for (size_t i = 0; i < r.members; ++i)
            require(r.leader[i] >= -1 && r.leader[i] < (int64_t)run.learners && r.hint[i] >= 0 &&
                        r.hint[i] < (int64_t)Hint::SIZE,
                    "leader and hint");
        r.in_order = members_in_order(r);
        if (mixer.is_none())
            require(r.members == 1, "members and mixer");
        else
            set_mixer(mixer);
    }

    bool learn(nb::handle model, nb::handle z, nb::handle y) const {
        std::vector<double> own;
        const double *row = read_row(z.ptr(), r.run.dim, own);
        double label, yhat;
        if (!row || !read_label(y.ptr(), label)) return false;
        const LockGuard held(lock_pointer(), true);
        const int64_t first = rounds_of(model);
        if (run(table(), table().ensemble_play, call_with(first, row, 1, &label, &yhat))) return false;
        nb::setattr(model, rounds_name(), nb::int_(first + 1));
        return true;
    }

    nb::object predict(nb::handle model, nb::handle z) const {
        std::vector<double> own;
        const double *row = read_row(z.ptr(), r.run.dim, own);
        if (!row) return nb::none();
        double yhat;
        const LockGuard held(lock_pointer(), false);
        const auto call = call_with(rounds_of(model), row, 1, nullptr, &yhat);
        if (run(table(), table().ensemble_predict, call)) return nb::none();
        return nb::steal(PyFloat_FromDouble(yhat));
    }

    int64_t predict_rows(int64_t first, Inputs Z, Vector yhat) const {
        require(Z.shape(1) == r.run.dim && yhat.shape(0) == Z.shape(0) && first >= 0, "Z and yhat");
        return run(table(), table().ensemble_predict, call_with(first, Z.data(), Z.shape(0), nullptr, yhat.data()));
    }

    int64_t play(int64_t first, Inputs Z, Input y, Vector yhat, Matrix weights) const {
        const size_t n = Z.shape(0);
        require(Z.shape(1) == r.run.dim && y.shape(0) == n && yhat.shape(0) == n && first >= 0, "Z, y and yhat");
        require(!weights.shape(0) || (weights.shape(0) == n && weights.shape(1) == r.members), "weights");
        double *before = weights.shape(0) ? weights.data() : nullptr;
        return run(table(), table().ensemble_play, call_with(first, Z.data(), n, y.data(), yhat.data(), before));
    }

    size_t slot_size() const { return table().slot_size(r); }

    nb::tuple slot_shape() const {
        const size_t lanes = r.run.lanes == 1 ? 1 : slot_lanes;
        return nb::make_tuple((r.run.learners + lanes - 1) / lanes, InformationLayout(r.run.dim).size, lanes);
    }

    int64_t play_keys(Matrix states, Integers rounds, Indices slots, Inputs Z, Input y, Vector yhat,
                      size_t threads) const {
        const KernelTable &level = table();
        const size_t n = slots.shape(0);
        require(slot_lanes == level.slot_lanes && states.shape(1) == level.slot_size(r) &&
                    rounds.shape(0) == states.shape(0),
                "states and rounds");
        require(Z.shape(0) == n && Z.shape(1) == r.run.dim && y.shape(0) == n && yhat.shape(0) == n, "Z, y and yhat");
        for (size_t i = 0; i < n; ++i)
            require(slots.data()[i] >= 0 && (size_t)slots.data()[i] < states.shape(0), "slots and states");
        const KeyedCall keys{states.data(), rounds.data(), slots.data(), n, Z.data(), y.data(), yhat.data()};
        nb::gil_scoped_release unlocked;
        const int64_t status = level.invalid_input(keys.Z, n * r.run.dim, keys.y, n, r.binary);
        if (!status) share_keys(level, r, keys, threads);
        return status;
    }
};

} // namespace

void bind_ensemble(nb::module_ &mod) {
    const auto a = [](const char *name) { return nb::arg(name).noconvert(); };
    nb::class_<EnsembleKernel>(mod, "EnsembleKernel",
                               "Whole rounds of an ensemble over its own arrays, which are changed in place.")
        .def(nb::init<bool, nb::handle, nb::handle, nb::handle, nb::handle, nb::handle, nb::handle, nb::handle, nb::handle,
                      nb::object>(),
             nb::kw_only(), nb::arg("binary"), nb::arg("state"), nb::arg("beta"), nb::arg("inverse_curvature"),
             nb::arg("leader"), nb::arg("hint"), nb::arg("last_label"), nb::arg("stability"), nb::arg("mixer").none(),
             nb::arg("lock") = nb::none())
        .def("learn", &EnsembleKernel::learn, nb::arg("model"), nb::arg("z").none(), nb::arg("y").none(),
             "Close one round and count it in model.rounds, holding the lock exclusively; False, and nothing happens, if z "
             "or y is not plainly usable.")
        .def("predict", &EnsembleKernel::predict, nb::arg("model"), nb::arg("z").none(),
             "Return the prediction for a row after model.rounds rounds, sharing the lock; None if z is not plainly usable.")
        .def("predict_rows", &EnsembleKernel::predict_rows, nb::arg("first"), a("Z"), a("yhat"),
             "Fill the predictions for rows; 0, or where the number is that may not be used.")
        .def("play", &EnsembleKernel::play, nb::arg("first"), a("Z"), a("y"), a("yhat"), a("weights"),
             "Close rounds; 0, or where the number is that may not be used.")
        .def("slot_size", &EnsembleKernel::slot_size, "Numbers that one key's ensemble takes in the states of play_keys.")
        .def("slot_shape", &EnsembleKernel::slot_shape,
             "Shape of the learners' state in a slot: (groups, length, lanes).")
        .def("play_keys", &EnsembleKernel::play_keys, a("states"), a("rounds"), a("slots"), a("Z"), a("y"), a("yhat"),
             nb::arg("threads") = 1, "Close a round of ensemble slots[i] with row i, one record after the other.");
}
