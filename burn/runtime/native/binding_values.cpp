// A program's inputs and outputs: from Python's objects to what the runtime takes, and back. Outputs' memory is wrapped in numpy
// arrays without a copy.
#include "binding_values.h"

#include <algorithm>
#include <cstring>

namespace nb = nanobind;

PyObject *input_mismatch = nullptr;

[[noreturn]] void mismatch(const char *what) {
    PyErr_SetString(input_mismatch, what);
    throw nb::python_error();
}

nb::object dtype_of(nb::handle spec) {
    PyArray_Descr *descr = nullptr;
    if (!PyArray_DescrConverter(spec.ptr(), &descr))
        throw nb::python_error();
    nb::object owned = nb::steal(reinterpret_cast<PyObject *>(descr));
    if (PyDataType_REFCHK(descr) && descr->type_num != NPY_OBJECT) // objects stand for strings
        throw nb::type_error("a program's tensors cannot hold Python objects");
    return owned;
}

int64_t bytes_of(nb::handle dtype) {
    return PyDataType_ELSIZE(reinterpret_cast<PyArray_Descr *>(dtype.ptr()));
}

namespace {

PyArray_Descr *new_reference(nb::handle dtype) {
    return reinterpret_cast<PyArray_Descr *>(nb::object(nb::borrow(dtype)).release().ptr());
}

void free_capsule(PyObject *capsule) { burn_memory_free(PyCapsule_GetPointer(capsule, nullptr)); }

// An array of str as heap.h says that strings are packed.
burn_input pack(PyArrayObject *array, const int64_t *dims, Kept &kept) {
    int64_t count = PyArray_SIZE(array), bytes = (count + 1) * static_cast<int64_t>(sizeof(int64_t));
    auto **items = static_cast<PyObject **>(PyArray_DATA(array));
    std::vector<std::pair<const char *, Py_ssize_t>> texts(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; i++) {
        auto &[text, length] = texts[static_cast<size_t>(i)];
        if (!items[i] || !PyUnicode_Check(items[i]))
            mismatch("not a string");
        text = PyUnicode_AsUTF8AndSize(items[i], &length);
        if (!text) {
            PyErr_Clear();
            mismatch("not UTF-8");
        }
        bytes += length;
    }
    auto *packed = static_cast<char *>(kept.bytes(bytes));
    auto *offsets = reinterpret_cast<int64_t *>(packed);
    char *first = packed + (count + 1) * static_cast<int64_t>(sizeof(int64_t));
    offsets[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        auto [text, length] = texts[static_cast<size_t>(i)];
        std::memcpy(first + offsets[i], text, static_cast<size_t>(length));
        offsets[i + 1] = offsets[i] + length;
    }
    return {packed, bytes, PyArray_NDIM(array), dims, 0, 0};
}

// An array in the memory of the program's GPU.
burn_input check_on_device(PyObject *object, const Spec &spec, burn_device *device) {
    if (!nb::isinstance<DeviceArray>(object))
        mismatch("not a numpy array");
    const DeviceArray &array = *nb::inst_ptr<DeviceArray>(object);
    if (array.device() != device || !spec.is_plain())
        mismatch("another device");
    auto *descr = reinterpret_cast<PyArray_Descr *>(array.dtype().ptr());
    if (descr != spec.descr() && !PyArray_EquivTypes(descr, spec.descr()))
        mismatch("dtype");
    return {array.address(), array.bytes(), static_cast<int64_t>(array.shape().size()), array.shape().data(), 0, 1};
}

// A list or tuple; for an optional, of at most one element.
burn_input check_container(PyObject *object, const Spec &spec, size_t level, burn_device *device, Kept &kept) {
    if (!PyList_Check(object) && !PyTuple_Check(object))
        mismatch("not a list");
    Py_ssize_t count = count_of(object);
    if (spec.containers.first[level] == 'o' && count > 1)
        mismatch("more than one");
    auto *length = static_cast<int64_t *>(kept.bytes(sizeof(int64_t)));
    auto *elements = static_cast<burn_input *>(kept.bytes(count * static_cast<int64_t>(sizeof(burn_input))));
    for (Py_ssize_t i = 0; i < count; i++)
        elements[i] = check_input(item_of(object, static_cast<size_t>(i)), spec, level + 1, device, kept);
    *length = count;
    return {elements, count * static_cast<int64_t>(sizeof(burn_input)), 1, length, 0, 0};
}

} // namespace

// ---- inputs ----------------------------------------------------------------------------------------------------------

burn_input check_input(PyObject *object, const Spec &spec, size_t level, burn_device *device, Kept &kept) {
    if (level < spec.depth())
        return check_container(object, spec, level, device, kept);
    if (!PyArray_Check(object)) {
        if (kept.accepts && level == 0 && !nb::isinstance<DeviceArray>(object))
            return check_foreign(object, spec, device, kept);
        return check_on_device(object, spec, device);
    }
    auto *array = reinterpret_cast<PyArrayObject *>(object);
    if (PyArray_DESCR(array) != spec.descr() && !PyArray_EquivTypes(PyArray_DESCR(array), spec.descr()))
        mismatch("dtype");
    if (!PyArray_IS_C_CONTIGUOUS(array) || !PyArray_ISALIGNED(array))
        mismatch("layout");
    static_assert(sizeof(npy_intp) == sizeof(int64_t), "64-bit platforms only");
    const auto *dims = reinterpret_cast<const int64_t *>(PyArray_DIMS(array));
    if (level > 0)
        kept.objects.push_back(nb::borrow(object));
    if (spec.is_text())
        return pack(array, dims, kept);
    return {PyArray_DATA(array), PyArray_NBYTES(array), PyArray_NDIM(array), dims, 0, 0};
}

bool is_writable(PyObject *object) {
    if (PyArray_Check(object))
        return PyArray_ISWRITEABLE(reinterpret_cast<PyArrayObject *>(object));
    return nb::isinstance<DeviceArray>(object) && nb::inst_ptr<DeviceArray>(object)->is_writable();
}

// ---- outputs ---------------------------------------------------------------------------------------------------------

// A numpy array over `output`. The array owns the memory, or keeps the donated input alive whose memory it is.
nb::object wrap(const burn_output &output, nb::handle dtype, nb::handle owner) {
    npy_intp dims[BURN_MAX_RANK];
    npy_intp elements = 1;
    for (int64_t i = 0; i < output.rank; i++) {
        dims[i] = output.dims[i];
        elements *= dims[i];
    }
    auto *descr = reinterpret_cast<PyArray_Descr *>(dtype.ptr());
    nb::object base =
        owner.is_valid() ? nb::borrow(owner) : nb::steal(PyCapsule_New(output.data, nullptr, free_capsule));
    if (!base.is_valid()) {
        burn_memory_free(output.data);
        throw nb::python_error();
    }
    if (elements * PyDataType_ELSIZE(descr) > output.bytes)
        throw std::runtime_error("the program gave an output too few bytes for its shape");
    int rank = static_cast<int>(output.rank);
    nb::object array = nb::steal(PyArray_NewFromDescr(&PyArray_Type, new_reference(dtype), rank, dims, nullptr,
                                                      output.data, NPY_ARRAY_CARRAY, nullptr));
    if (!array.is_valid())
        throw nb::python_error();
    if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject *>(array.ptr()), base.release().ptr()) < 0)
        throw nb::python_error();
    return array;
}

namespace {

// The array owns the memory, or shares that of the donated input it was.
nb::object wrap_on_device(const burn_output &output, nb::handle dtype, nb::handle owner, burn_device *device) {
    std::shared_ptr<ArrayMemory> memory;
    if (owner.is_valid())
        memory = nb::inst_ptr<DeviceArray>(owner)->memory();
    else
        memory = std::make_shared<ArrayMemory>(device, output.data);
    memory->set_ready(output.ready);
    std::vector<int64_t> shape(output.dims, output.dims + output.rank);
    return new_device_array({std::move(memory), output.data, output.bytes, nb::borrow(dtype), std::move(shape)});
}

nb::object unpack(const burn_output &output) {
    npy_intp dims[BURN_MAX_RANK];
    int64_t count = 1;
    for (int64_t i = 0; i < output.rank; i++)
        count *= dims[i] = output.dims[i];
    nb::object array = nb::steal(PyArray_SimpleNew(static_cast<int>(output.rank), dims, NPY_OBJECT));
    if (!array.is_valid())
        throw nb::python_error();
    const auto *offsets = static_cast<const int64_t *>(output.data);
    const char *first = reinterpret_cast<const char *>(offsets + count + 1);
    auto **items = static_cast<PyObject **>(PyArray_DATA(reinterpret_cast<PyArrayObject *>(array.ptr())));
    for (int64_t i = 0; i < count; i++) {
        PyObject *text = PyUnicode_DecodeUTF8(first + offsets[i], offsets[i + 1] - offsets[i], "strict");
        if (!text)
            throw nb::python_error();
        exchange(items[i], text);
    }
    return array;
}

// Strings as an array of str, a sequence as a list, an optional as its element or None. Moves the parts of the result
// out of `output`.
nb::object build(burn_output &output, const Spec &spec, size_t level) {
    if (level == spec.depth()) {
        if (spec.is_text())
            return unpack(output);
        burn_output own = output;
        output.data = nullptr;
        return wrap(own, spec.dtype, nb::handle());
    }
    auto *elements = static_cast<burn_output *>(output.data);
    if (spec.containers.first[level] == 'o')
        return output.dims[0] ? build(elements[0], spec, level + 1) : nb::none();
    nb::list list;
    for (int64_t i = 0; i < output.dims[0]; i++)
        list.append(build(elements[i], spec, level + 1));
    return list;
}

} // namespace

// Every output becomes an array, or is freed: also when wrapping one of them throws.
nb::list give_outputs(std::vector<burn_output> &outputs, const std::vector<Spec> &specs, nb::handle arguments,
                      burn_device *device) {
    nb::list results;
    size_t next = 0;
    try {
        for (; next < outputs.size();) {
            burn_output &output = outputs[next];
            nb::handle owner;
            if (output.taken_from >= 0)
                owner = item_of(arguments.ptr(), static_cast<size_t>(output.taken_from));
            const Spec &spec = specs[next];
            if (output.on_device) {
                next++;
                results.append(wrap_on_device(output, spec.dtype, owner, device));
            } else if (spec.is_plain()) {
                next++;
                results.append(wrap(output, spec.dtype, owner));
            } else {
                results.append(build(output, spec, 0));
                burn_output_free(spec.kind(), &outputs[next++]);
            }
        }
    } catch (...) {
        for (; next < outputs.size(); next++)
            if (!outputs[next].on_device)
                burn_output_free(specs[next].kind(), &outputs[next]);
            else {
                burn_device_moment_delete(outputs[next].ready);
                if (outputs[next].taken_from < 0)
                    unlocked([&] { burn_device_free(device, outputs[next].data); });
            }
        throw;
    }
    return results;
}
