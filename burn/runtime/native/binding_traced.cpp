// Traced programs as Python sees them: a program's GPU work for inputs of certain sizes, submitted with the caller's addresses and
// stream. See runtime.h.
#include "binding_traced.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace {

void read_addresses(nb::handle list, std::vector<void *> &into) {
    auto count = static_cast<size_t>(PyList_Check(list.ptr()) ? PyList_Size(list.ptr()) : -1);
    if (count != into.size())
        throw nb::value_error("another number of addresses");
    for (size_t i = 0; i < count; i++) {
        into[i] = reinterpret_cast<void *>(static_cast<uintptr_t>(PyLong_AsUnsignedLongLong(PyList_GetItem(list.ptr(), static_cast<Py_ssize_t>(i)))));
        if (PyErr_Occurred())
            throw nb::python_error();
    }
}

} // namespace

Traced::Traced(burn_traced *traced, burn_device *device, nb::object program, size_t inputs, size_t outputs, std::vector<int32_t> from_host,
               std::vector<int64_t> bytes)
    : traced_(traced), device_(device), program_(std::move(program)), inputs_(inputs), from_host_(std::move(from_host)),
      bytes_(std::move(bytes)) {
    size_t own = 0;
    for (size_t i = 0; i < outputs; i++) {
        const burn_output &output = *burn_traced_output(traced_, static_cast<int64_t>(i));
        outputs_.push_back(output);
        own += output.taken_from < 0;
    }
    own_outputs_ = own;
}

Traced::~Traced() {
    PyThreadState *state = PyEval_SaveThread();
    burn_traced_delete(traced_);
    take_lock(state);
}

int64_t Traced::arena() const { return burn_traced_arena(traced_); }
int64_t Traced::steps() const { return burn_traced_steps(traced_); }

nb::list Traced::outputs() const {
    nb::list found;
    for (const burn_output &output : outputs_) {
        std::vector<int64_t> dims(output.dims, output.dims + output.rank);
        found.append(nb::make_tuple(nb::tuple(nb::cast(dims)), output.taken_from));
    }
    return found;
}

void Traced::submit(uintptr_t arena, nb::handle inputs, nb::handle from_host, nb::handle outputs, uintptr_t stream, bool as_graph) {
    std::vector<void *> addresses(inputs_), results(own_outputs_);
    read_addresses(inputs, addresses);
    read_addresses(outputs, results);
    std::vector<Buffer> held;
    std::vector<const void *> elements;
    size_t given = 0;
    for (size_t i = 0; i < inputs_; i++) {
        if (!from_host_[i])
            continue;
        nb::object each = nb::steal(PySequence_GetItem(from_host.ptr(), static_cast<Py_ssize_t>(given++)));
        if (!each.is_valid())
            throw nb::python_error();
        held.emplace_back(each);
        if (held.back().bytes() != bytes_[i])
            throw nb::value_error("elements of another number of bytes");
        elements.push_back(held.back().data());
    }
    int32_t status = unlocked([&] {
        std::lock_guard<std::mutex> guard(mutex_);
        for (size_t i = 0; i < inputs_; i++)
            *burn_traced_input(traced_, static_cast<int64_t>(i)) = static_cast<int64_t>(reinterpret_cast<intptr_t>(addresses[i]));
        return burn_traced_submit(traced_, reinterpret_cast<void *>(arena), elements.data(), results.data(),
                                  reinterpret_cast<void *>(stream), as_graph);
    });
    if (status != BURN_OK)
        device_failed();
    heed(device_);
}

void bind_traced(nb::module_ &m) {
    nb::class_<Traced>(m, "Traced")
        .def_prop_ro("arena", &Traced::arena)
        .def_prop_ro("steps", &Traced::steps)
        .def_prop_ro("outputs", &Traced::outputs)
        .def("submit", &Traced::submit, "arena"_a, "inputs"_a, "from_host"_a, "outputs"_a, "stream"_a, "as_graph"_a);
}
