// One row of numbers as streaming programs hold it: an array of any real type, a list, a tuple. What is read here costs a
// fraction of a microsecond; for anything else the functions return false or null, and the caller's general code, which
// also knows what to complain about, goes on.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "array.h"

namespace undrift {

// NumPy's scalars of real numbers. Their base classes will not do: a time span is an integer to NumPy.
inline bool is_numpy_number(PyTypeObject *type) {
    static const auto types = [] {
        constexpr std::array names{"float64", "float32", "int64",  "int32",  "bool_",    "uint8",     "int8",
                                   "int16",   "uint16",  "uint32", "uint64", "longlong", "ulonglong", "float16"};
        std::array<PyObject *, names.size()> found{};
        const nanobind::module_ numpy = nanobind::module_::import_("numpy");
        for (size_t i = 0; i < names.size(); ++i) found[i] = nanobind::object(numpy.attr(names[i])).release().ptr();
        return found;
    }();
    for (PyObject *one : types)
        if (reinterpret_cast<PyTypeObject *>(one) == type) return true;
    return false;
}

// A number of Python or NumPy; false for an integer beyond float64 too.
inline bool read_number(PyObject *value, double &out) {
    if (!PyFloat_CheckExact(value) && !PyLong_CheckExact(value) && !PyBool_Check(value) && !is_numpy_number(Py_TYPE(value)))
        return false;
    out = PyFloat_AsDouble(value);
    if (out == -1.0 && PyErr_Occurred()) {
        PyErr_Clear();
        return false;
    }
    return true;
}

// A label: a number, but not a boolean, of which the general code knows what it means.
inline bool read_label(PyObject *value, double &out) {
    static PyObject *const numpy_bool = nanobind::object(nanobind::module_::import_("numpy").attr("bool_")).release().ptr();
    return !PyBool_Check(value) && Py_TYPE(value) != reinterpret_cast<PyTypeObject *>(numpy_bool) && read_number(value, out);
}

template <class T> void copy_numbers(const NumpyArray &a, double *out) {
    for (Py_ssize_t i = 0; i < a.dims[0]; ++i) {
        T value;
        std::memcpy(&value, a.data + i * a.strides[0], sizeof(T));
        out[i] = static_cast<double>(value);
    }
}

// Copy an array of one axis and `width` numbers, whatever its real type and strides.
inline bool copy_array(PyObject *z, size_t width, double *out) {
    if (Py_TYPE(z) != numpy_type) return false;
    const NumpyArray &a = *reinterpret_cast<NumpyArray *>(z);
    if (a.nd != 1 || static_cast<size_t>(a.dims[0]) != width || (a.descr->byteorder != '=' && a.descr->byteorder != '|')) return false;
    switch (a.descr->type_num) { // as in NumPy's enumeration of types
    case 0: copy_numbers<uint8_t>(a, out); return true; // booleans are 0 or 1
    case 1: copy_numbers<int8_t>(a, out); return true;
    case 2: copy_numbers<uint8_t>(a, out); return true;
    case 3: copy_numbers<int16_t>(a, out); return true;
    case 4: copy_numbers<uint16_t>(a, out); return true;
    case 5: copy_numbers<int>(a, out); return true;
    case 6: copy_numbers<unsigned>(a, out); return true;
    case 7: copy_numbers<long>(a, out); return true;
    case 8: copy_numbers<unsigned long>(a, out); return true;
    case 9: copy_numbers<long long>(a, out); return true;
    case 10: copy_numbers<unsigned long long>(a, out); return true;
    case 11: copy_numbers<float>(a, out); return true;
    case 12: copy_numbers<double>(a, out); return true;
    default: return false;
    }
}

// The `width` numbers of a row without names, in place where it is a contiguous float64 array, otherwise in `own`; null if
// it is something else.
inline const double *read_row(PyObject *z, size_t width, std::vector<double> &own) {
    Array<const double, 1> plain;
    if (plain.read(z)) return plain.shape(0) == width ? plain.data() : nullptr;
    const bool list = PyList_CheckExact(z);
    if (!list && !PyTuple_Check(z)) {
        if (Py_TYPE(z) != numpy_type) return nullptr;
        own.resize(width);
        return copy_array(z, width, own.data()) ? own.data() : nullptr;
    }
    if (static_cast<size_t>(list ? PyList_Size(z) : PyTuple_Size(z)) != width) return nullptr;
    own.resize(width);
    for (size_t j = 0; j < width; ++j) {
        const auto at = static_cast<Py_ssize_t>(j);
        if (!read_number(list ? PyList_GetItem(z, at) : PyTuple_GetItem(z, at), own[j])) return nullptr;
    }
    return own.data();
}

} // namespace undrift
