// Python's handle on the lock.
#include "lock.h"

namespace nb = nanobind;
using namespace undrift;

namespace {

struct Shared { // what `lock.shared` is: the same lock, entered as a reader
    Lock &lock;
};

} // namespace

void bind_lock(nb::module_ &mod) {
    const auto any = nb::arg().none();
    nb::class_<Lock> lock(mod, "Lock", "`with lock:` alone, `with lock.shared:` with other readers; in order of arrival, re-entrant.");
    nb::class_<Shared>(mod, "Shared", "A lock as its readers enter it.")
        .def("__enter__", [](Shared &self) { self.lock.enter(false); })
        .def("__exit__", [](Shared &self, nb::handle, nb::handle, nb::handle) { self.lock.leave(); }, any, any, any);
    lock.def(nb::init<>())
        .def("__enter__", [](Lock &self) { self.enter(true); })
        .def("__exit__", [](Lock &self, nb::handle, nb::handle, nb::handle) { self.leave(); }, any, any, any)
        .def_prop_ro("shared", [](Lock &self) { return Shared{self}; }, nb::keep_alive<0, 1>())
        .def("__reduce__", [](nb::handle self) { return nb::make_tuple(self.type(), nb::tuple()); },
             "A copy is a new lock that nobody holds.");
}
