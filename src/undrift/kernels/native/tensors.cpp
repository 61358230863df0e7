// Where many Python tensors are in memory, asked in one call through the C functions of DLPack that their type offers.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <stdint.h>

namespace nb = nanobind;

namespace {

using Addresses = nb::ndarray<uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// A tensor and the table of functions, as DLPack 1 lays them out.
struct View {
    void *data;
    int32_t device, device_number, dimensions;
    uint8_t code, bits;
    uint16_t lanes;
    const int64_t *shape, *strides;
    uint64_t offset;
};
struct Functions {
    uint32_t major, minor;
    const void *older, *allocate, *share, *adopt;
    int (*view)(void *tensor, View *out); // without ownership, waiting for nothing
    const void *stream;
};
constexpr int32_t CPU = 1;

const Functions *functions_of(nb::handle kind) {
    nb::object capsule = nb::getattr(kind, "__dlpack_c_exchange_api__", nb::none());
    if (!PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) return nullptr;
    const auto *found = (const Functions *)PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api");
    return found->major == 1 && found->view ? found : nullptr; // it lives as long as its library
}

bool can_find_tensors(nb::handle kind) { return functions_of(kind) != nullptr; }

bool suits(const View &view, int code, int bits, int64_t size) {
    if (view.device != CPU || view.code != code || view.bits != bits || view.lanes != 1) return false;
    int64_t count = 1;
    bool dense = true;
    for (int32_t d = view.dimensions; d-- > 0;) {
        dense &= !view.strides || view.shape[d] == 1 || view.strides[d] == count;
        count *= view.shape[d];
    }
    return count == size && (dense || count == 0);
}

// Fill `out` with addresses. 0: not all are dense tensors of this type (DLPack's code and bits) and size on the CPU;
// 1: they are; 2: they are, and all where `out` had them already.
int find_tensors(nb::handle kind, nb::list tensors, int code, int bits, Integers size, Addresses out) {
    const Functions *functions = functions_of(kind);
    const size_t n = tensors.size();
    if (!functions || size.shape(0) != n || out.shape(0) != n) return 0;
    int found = 2;
    for (size_t i = 0; i < n; ++i) {
        PyObject *tensor = PyList_GetItem(tensors.ptr(), (Py_ssize_t)i);
        View view;
        if (!PyObject_TypeCheck(tensor, (PyTypeObject *)kind.ptr())) return 0;
        if (functions->view(tensor, &view) != 0) {
            PyErr_Clear(); // sparse, or something else without addresses
            return 0;
        }
        if (!suits(view, code, bits, size.data()[i])) return 0;
        const uint64_t address = (uint64_t)view.data + view.offset;
        if (out.data()[i] != address) found = 1;
        out.data()[i] = address;
    }
    return found;
}

// Whether every dictionary has this very object under `key`.
bool all_hold(nb::list dictionaries, nb::str key, nb::list objects) {
    const size_t n = dictionaries.size();
    if (objects.size() != n) return false;
    for (size_t i = 0; i < n; ++i) {
        PyObject *one = PyList_GetItem(dictionaries.ptr(), (Py_ssize_t)i);
        if (!PyDict_Check(one)) return false;
        PyObject *found = PyDict_GetItemWithError(one, key.ptr());
        if (!found && PyErr_Occurred()) nb::raise_python_error();
        if (found != PyList_GetItem(objects.ptr(), (Py_ssize_t)i)) return false;
    }
    return true;
}

} // namespace

void bind_tensors(nb::module_ &m) {
    m.def("can_find_tensors", &can_find_tensors, nb::arg("kind"));
    m.def("find_tensors", &find_tensors, nb::arg("kind"), nb::arg("tensors"), nb::arg("code"), nb::arg("bits"),
          nb::arg("size").noconvert(), nb::arg("out").noconvert());
    m.def("all_hold", &all_hold, nb::arg("dictionaries"), nb::arg("key"), nb::arg("objects"));
}
