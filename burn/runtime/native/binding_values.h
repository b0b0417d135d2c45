// Conversion of inputs and outputs between Python and programs (binding_values.cpp), for binding_program.cpp.
#ifndef BURN_BINDING_VALUES_H
#define BURN_BINDING_VALUES_H

#include "binding_numpy.h"

#include "lib_keys.h"
#include "runtime.h"

extern PyObject *input_mismatch; // the exception: an input does not fit the signature as it stands

[[noreturn]] void mismatch(const char *what); // raises it

nanobind::object dtype_of(nanobind::handle spec); // numpy's dtype
int64_t bytes_of(nanobind::handle dtype);         // of an element

struct Freed {
    void operator()(void *memory) const { burn_memory_free(memory); }
};

// How a value is contained: 's' for a sequence, 'o' for an optional, from outside in, then '*' where the tensors may have
// any rank; and the burn_dtype of the tensors.
using Containers = std::pair<std::string, int32_t>;

struct Spec {
    nanobind::object dtype;       // object stands for strings
    std::vector<int64_t> dims;    // as in burn_input_spec
    Containers containers = {"", 0};

    PyArray_Descr *descr() const { return reinterpret_cast<PyArray_Descr *>(dtype.ptr()); }
    bool is_text() const { return descr()->type_num == NPY_OBJECT; }
    bool any_rank() const { return !containers.first.empty() && containers.first.back() == '*'; }
    size_t depth() const { return containers.first.size() - any_rank(); }
    burn_kind kind() const { return {is_text() ? BURN_TEXT : containers.second, static_cast<int32_t>(depth())}; }
    bool is_plain() const { return !is_text() && depth() == 0; }
};

// Of a list or a tuple, in words that the stable ABI has. An item is borrowed.
inline Py_ssize_t count_of(PyObject *list) { return PyList_Check(list) ? PyList_Size(list) : PyTuple_Size(list); }
inline PyObject *item_of(PyObject *list, size_t index) {
    auto at = static_cast<Py_ssize_t>(index);
    return PyList_Check(list) ? PyList_GetItem(list, at) : PyTuple_GetItem(list, at);
}

struct dlpack_exchange; // binding_foreign.cpp

// Memory that a call's inputs point to besides the callers' arrays, for the duration of the call. An input of another class than
// numpy's is accepted if `accepts` is set, and the first one decides the class of the outputs.
struct Kept {
    std::vector<std::unique_ptr<void, Freed>> memory;
    std::vector<nanobind::object> objects;
    bool accepts = false;
    nanobind::object wrapper;                  // a function of an array: __like_input__ of the first input that has it
    const dlpack_exchange *exchange = nullptr; // of the library of the first tensor that came through DLPack

    void *bytes(int64_t count) {
        memory.emplace_back(burn_memory_new(count));
        if (!memory.back())
            throw std::bad_alloc();
        return memory.back().get();
    }
};

// Checks an input's type and layout; the runtime checks the sizes. `level`: number of containers around the object;
// `device`: the program's, or NULL.
burn_input check_input(PyObject *object, const Spec &spec, size_t level, burn_device *device, Kept &kept);
bool is_writable(PyObject *object);

// ---- binding_foreign.cpp ---------------------------------------------------------------------------------------------
// An input that is neither numpy's array nor on the program's GPU: an object with __as_input__, or a tensor in this process's
// memory of a library with DLPack's C functions.
burn_input check_foreign(PyObject *object, const Spec &spec, burn_device *device, Kept &kept);
bool is_exchanged(PyObject *object); // a tensor of a type with DLPack's C functions
// The outputs in the class of the inputs.
void give_foreign(nanobind::list &outputs, const Kept &kept);

// A numpy array over `output`. The array owns the memory, or keeps the donated input alive whose memory it is.
nanobind::object wrap(const burn_output &output, nanobind::handle dtype, nanobind::handle owner);
// Every output becomes an array, or is freed: also when wrapping one of them throws. `arguments` are the inputs.
nanobind::list give_outputs(std::vector<burn_output> &outputs, const std::vector<Spec> &specs, nanobind::handle arguments,
                            burn_device *device);

#endif
