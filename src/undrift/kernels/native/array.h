// NumPy arrays as kernel arguments, read from the array object itself: a streaming call passes a dozen of them, and the
// general protocols cost more than its arithmetic. The structs are those behind NumPy's own PyArray_DATA, PyArray_DIMS and
// PyArray_FLAGS; `check_numpy` tries them on live arrays when the module is imported.
#pragma once
#include <nanobind/nanobind.h>

#include <type_traits>

namespace undrift {

struct NumpyDescr {
    PyObject_HEAD
    PyTypeObject *typeobj;
    char kind, type, byteorder, former_flags;
    int type_num;
};

struct NumpyArray {
    PyObject_HEAD
    char *data;
    int nd;
    Py_ssize_t *dims, *strides;
    PyObject *base;
    NumpyDescr *descr;
    int flags;
};

constexpr int NUMPY_CONTIGUOUS = 0x1, NUMPY_ALIGNED = 0x100, NUMPY_WRITEABLE = 0x400;

// Whether numbers of NumPy's type `type_num` are of type T: double, or integers of 64 bits (long or long long).
template <class T> bool has_type(int type_num) {
    constexpr bool is_unsigned = std::is_unsigned_v<T>;
    if constexpr (std::is_same_v<std::remove_const_t<T>, double>)
        return type_num == 12;
    else
        return type_num == 9 + is_unsigned || (type_num == 7 + is_unsigned && sizeof(long) == 8);
}

inline PyTypeObject *numpy_type = nullptr;

// A contiguous array of ND axes, of double, int64_t or uint64_t; T is const where the kernel only reads.
template <class T, int ND> struct Array {
    T *first = nullptr;
    size_t sizes[ND] = {};
    T *data() const { return first; }
    size_t shape(int axis) const { return sizes[axis]; }

    bool read(PyObject *o) {
        if (Py_TYPE(o) != numpy_type) return false; // a subclass may mean more than its numbers, as masked arrays do
        const NumpyArray *a = reinterpret_cast<NumpyArray *>(o);
        const int need = NUMPY_CONTIGUOUS | NUMPY_ALIGNED | (std::is_const_v<T> ? 0 : NUMPY_WRITEABLE);
        if (a->nd != ND || (a->flags & need) != need || !has_type<T>(a->descr->type_num) ||
            (a->descr->byteorder != '=' && a->descr->byteorder != '|'))
            return false;
        first = reinterpret_cast<T *>(a->data);
        for (int i = 0; i < ND; ++i) sizes[i] = (size_t)a->dims[i];
        return true;
    }
};

using Vector = Array<double, 1>;
using Matrix = Array<double, 2>;
using State = Array<double, 3>;
using Input = Array<const double, 1>;
using Inputs = Array<const double, 2>;
using Integers = Array<int64_t, 1>;
using Indices = Array<const int64_t, 1>;

inline void check_numpy() {
    namespace nb = nanobind;
    nb::object numpy = nb::module_::import_("numpy");
    numpy_type = reinterpret_cast<PyTypeObject *>(nb::object(numpy.attr("ndarray")).ptr());
    nb::object probe = numpy.attr("arange")(6.0).attr("reshape")(2, 3);
    nb::object frozen = probe.attr("copy")();
    frozen.attr("flags").attr("writeable") = false;
    nb::object integers = numpy.attr("arange")(6, nb::arg("dtype") = "int64");
    Array<double, 2> a, b;
    Array<const double, 2> c;
    Array<const double, 1> e;
    Indices i;
    if (!a.read(probe.ptr()) || a.sizes[0] != 2 || a.sizes[1] != 3 || a.first[5] != 5.0 || b.read(frozen.ptr()) ||
        !c.read(frozen.ptr()) || e.read(integers.ptr()) || i.read(probe.ptr()) || !i.read(integers.ptr()) ||
        i.first[5] != 5 || b.read(nb::object(probe.attr("T")).ptr()))
        throw nb::import_error("undrift: this NumPy lays arrays out in a way the kernels do not know");
}

} // namespace undrift

namespace nanobind::detail {
template <class T, int ND> struct type_caster<undrift::Array<T, ND>> {
    using Wanted = undrift::Array<T, ND>;
    NB_TYPE_CASTER(Wanted, const_name("numpy.ndarray"))
    bool from_python(handle src, uint8_t, cleanup_list *) noexcept { return value.read(src.ptr()); }
};
} // namespace nanobind::detail
