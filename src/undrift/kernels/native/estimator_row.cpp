// Single rows of one online estimator, as a streaming program has them: lock, checks and round in one call.
//
// The Python around a call of two microseconds must not cost more than the call. A plain row (row_input.h, or a dictionary
// without unknown names) with numbers that can be used is taken here; for anything else the methods say so without having
// done anything, and the estimator's general code, which also knows what to complain about, goes on.
#include <nanobind/nanobind.h>

#include <limits>
#include <vector>

#include "array.h"
#include "dispatch.h"
#include "estimator.h"
#include "estimator_input.h"
#include "forest_row.h"
#include "lock.h"
#include "row_input.h"

namespace nb = nanobind;
using namespace undrift;

namespace {

class EstimatorRow {
    nb::object lock, estimator, state, names, forests; // names: a tuple, or None while rows have none; forests: or None
    const Estimator *e = nullptr;
    double *S = nullptr;
    ForestRow *forest = nullptr; // answers of forests are the last columns of a row

    // How many numbers a row comes with.
    size_t width() const { return e->plan.stride() - (forest ? forest->answers : 0); }
    // Numbers of a record, with the row as forests see it.
    size_t record_size() const { return e->plan.record_size() + (forest ? forest->width : 0); }

    // A name that the dictionary lacks is 0, and None a missing number; an unknown name is not for here.
    bool read_dictionary(PyObject *z, double *row) const {
        if (names.is_none()) return false;
        Py_ssize_t found = 0;
        for (size_t j = 0; j < width(); ++j) {
            PyObject *value = PyDict_GetItemWithError(z, PyTuple_GetItem(names.ptr(), static_cast<Py_ssize_t>(j)));
            if (!value && PyErr_Occurred()) {
                PyErr_Clear();
                return false;
            }
            row[j] = value == Py_None ? std::numeric_limits<double>::quiet_NaN() : 0.0;
            if (value && value != Py_None && !read_number(value, row[j])) return false;
            found += value != nullptr;
        }
        return found && found == PyDict_Size(z);
    }

    // The row's numbers, or null if it is not plain or the estimator cannot use it; only while the lock is held.
    const double *read(nb::handle z, std::vector<double> &own) const {
        if (!e) return nullptr;
        const double *row = nullptr;
        if (PyDict_CheckExact(z.ptr())) {
            own.resize(e->plan.stride());
            if (read_dictionary(z.ptr(), own.data())) row = own.data();
        } else {
            row = read_row(z.ptr(), width(), own);
        }
        if (row && forest) { // room for what the forests say
            if (row != own.data()) own.assign(row, row + width());
            own.resize(e->plan.stride(), std::numeric_limits<double>::quiet_NaN());
            for (size_t j = width(); j < own.size(); ++j) own[j] = std::numeric_limits<double>::quiet_NaN();
            row = own.data();
        }
        return row && !refusal(*e, row, 1, nullptr, 0) ? row : nullptr;
    }

    Lock *lock_pointer() const { return nb::inst_ptr<Lock>(lock); }

    void set_rounds(nb::handle model) const { // what the model itself says about how much it has learned
        static PyObject *const name = PyUnicode_InternFromString("rounds");
        nb::setattr(model, nb::handle(name), nb::int_(static_cast<int64_t>(S[e->plan.numbers + EstimatorNumber::ROUNDS])));
    }

  public:
    explicit EstimatorRow(nb::object lock) : lock(std::move(lock)) {
        if (!nb::isinstance<Lock>(this->lock)) throw nb::type_error("EstimatorRow: lock must be a Lock");
    }

    // From now on rows are those of this estimator; called while its lock is held, or before anyone else knows it.
    void bind(nb::object kernel, nb::object numbers, nb::object columns, nb::object trees) {
        Vector vector;
        const Estimator *found = nb::isinstance<Estimator>(kernel) ? nb::inst_ptr<Estimator>(kernel) : nullptr;
        ForestRow *grown = nb::isinstance<ForestRow>(trees) ? nb::inst_ptr<ForestRow>(trees) : nullptr;
        const size_t answers = grown ? grown->answers : 0;
        if (!found || !vector.read(numbers.ptr()) || vector.shape(0) != found->plan.blank.size() ||
            found->plan.last.members != found->plan.candidates() || found->plan.stride() < answers ||
            (grown && grown->dim != found->plan.stride() - answers) ||
            !(columns.is_none() || (PyTuple_Check(columns.ptr()) && static_cast<size_t>(PyTuple_Size(columns.ptr())) == found->plan.stride() - answers)))
            throw nb::value_error("EstimatorRow: estimator, state, names and forests do not fit together");
        forests = std::move(trees);
        forest = grown;
        estimator = std::move(kernel);
        state = std::move(numbers);
        names = std::move(columns);
        e = found;
        S = vector.data();
    }

    // Fill the record of a row, which has really come if `commit`, and behind it the row as forests see it; false if that
    // cannot be done here.
    bool serve(nb::handle z, Vector record, bool commit, double elapsed) const {
        const LockGuard held(lock_pointer(), commit);
        std::vector<double> own;
        const double *row = read(z, own);
        if (!row || record.shape(0) != record_size()) return false;
        if (forest) {
            double *X = record.data() + e->plan.record_size();
            const double none = std::numeric_limits<double>::quiet_NaN();
            forest->put_in_context(row, &none, 1, commit, X);
            forest->answer(X, 1, own.data() + width());
        }
        e->serve(table(), S, row, record.data(), commit, elapsed);
        return true;
    }

    // Learn a label from the record of its row; NaN closes it.
    bool settle(nb::handle model, Input record, double y) const {
        const LockGuard held(lock_pointer(), true);
        if (!e || record.shape(0) != record_size() || refusal(*e, nullptr, 0, &y, 1)) return false;
        if (forest && y == y && !forest->has_room()) return false;
        const double *r = record.data();
        if (forest && y == y) {
            const bool newest = r[RecordPart::SERIAL] > S[e->plan.numbers + EstimatorNumber::LAST_SERIAL];
            forest->settle(r + e->plan.record_size(), y, r[RecordPart::WEIGHT], newest);
        }
        e->settle(table(), S, r, y);
        set_rounds(model);
        return true;
    }

    // Learn a row that has come now, and its label, from the record that was made of it when `rounds` labels were known.
    bool learn_peeked(nb::handle model, nb::handle z, double y, Vector record, int64_t rounds) const {
        const LockGuard held(lock_pointer(), true);
        std::vector<double> own;
        const double *row = read(z, own);
        if (!row || y != y || refusal(*e, nullptr, 0, &y, 1) || record.shape(0) != record_size()) return false;
        if (forest && !forest->has_room()) return false;
        double *r = record.data(), *numbers = S + e->plan.numbers;
        e->advance(table(), S, row);
        r[RecordPart::SERIAL] = numbers[EstimatorNumber::SERVED];
        r[RecordPart::UNCOUNTED] = numbers[EstimatorNumber::ROUNDS] - static_cast<double>(rounds);
        if (forest) { // running means of the features advance now; the row is kept as it was seen then
            std::vector<double> X(forest->width);
            const double none = std::numeric_limits<double>::quiet_NaN();
            forest->put_in_context(row, &none, 1, true, X.data());
            forest->settle(r + e->plan.record_size(), y, r[RecordPart::WEIGHT], true);
        }
        e->settle(table(), S, r, y);
        set_rounds(model);
        return true;
    }

    nb::object predict(nb::handle z, double elapsed) const {
        const LockGuard held(lock_pointer(), false);
        std::vector<double> own;
        const double *row = read(z, own);
        if (!row) return nb::none();
        if (forest) {
            std::vector<double> X(forest->width);
            const double none = std::numeric_limits<double>::quiet_NaN();
            forest->put_in_context(row, &none, 1, false, X.data());
            forest->answer(X.data(), 1, own.data() + width());
        }
        std::vector<double> record(e->plan.record_size());
        e->serve(table(), S, row, record.data(), false, elapsed);
        return nb::steal(PyFloat_FromDouble(record[RecordPart::YHAT]));
    }

    bool learn(nb::handle model, nb::handle z, double y, double weight, double elapsed) const {
        const LockGuard held(lock_pointer(), true);
        std::vector<double> own;
        const double *row = read(z, own);
        if (!row || y != y || refusal(*e, nullptr, 0, &y, 1) || (forest && !forest->has_room())) return false;
        if (forest) {
            std::vector<double> X(forest->width);
            forest->put_in_context(row, &y, 1, true, X.data());
            forest->answer(X.data(), 1, own.data() + width());
            forest->keep(X.data(), y, weight);
        }
        double yhat;
        const bool ordinary = weight == 1.0 && elapsed == 1.0;
        e->play(table(), S, row, &y, 1, &yhat, nullptr, nullptr, ordinary ? nullptr : &weight, ordinary ? nullptr : &elapsed);
        set_rounds(model);
        return true;
    }
};

} // namespace

void bind_estimator_row(nb::module_ &m) {
    nb::class_<EstimatorRow>(m, "EstimatorRow")
        .def(nb::init<nb::object>(), nb::arg("lock"))
        .def("bind", &EstimatorRow::bind, nb::arg("kernel"), nb::arg("state"), nb::arg("names").none(),
             nb::arg("forests").none())
        .def("serve", &EstimatorRow::serve, nb::arg("z").none(), nb::arg("record").noconvert(), nb::arg("commit"),
             nb::arg("elapsed") = 1.0)
        .def("settle", &EstimatorRow::settle, nb::arg("model"), nb::arg("record").noconvert(), nb::arg("y"))
        .def("learn_peeked", &EstimatorRow::learn_peeked, nb::arg("model"), nb::arg("z").none(), nb::arg("y"),
             nb::arg("record").noconvert(), nb::arg("rounds"))
        .def("predict", &EstimatorRow::predict, nb::arg("z").none(), nb::arg("elapsed") = 1.0)
        .def("learn", &EstimatorRow::learn, nb::arg("model"), nb::arg("z").none(), nb::arg("y"), nb::arg("weight") = 1.0,
             nb::arg("elapsed") = 1.0);
}
