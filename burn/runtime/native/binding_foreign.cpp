// Tensors of other classes as inputs of programs, and outputs as tensors of the same class.
//
// DLPack's Python methods take microseconds a tensor, more than the run of a small model. Libraries from 2025 on (PyTorch from
// 2.10) have the same as C functions, in a capsule on the tensors' type: `__dlpack_c_exchange_api__` of DLPack 1.2. Tensors
// that these functions cannot describe are a mismatch, and Python's conversion (arrays.py) takes them or names the problem.
#include "binding_values.h"

#include <unordered_map>

namespace nb = nanobind;
using namespace nb::literals;

// ---- DLPack's structures, as its specification lays them out -------------------------------------------------------------

namespace {

struct dl_version {
    uint32_t major, minor;
};

struct dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t rank;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides; // strides in elements; NULL: dense
    uint64_t byte_offset;
};

struct dl_managed {
    dl_version version;
    void *context;
    void (*deleter)(dl_managed *self);
    uint64_t flags;
    dl_tensor tensor;
};

constexpr uint32_t DL_MAJOR = 1, DL_MINOR = 1;
constexpr int32_t DL_CPU = 1;

} // namespace

struct dlpack_exchange {
    dl_version version;
    dlpack_exchange *previous; // an older version of these functions
    int (*allocate)(dl_tensor *, dl_managed **, void *, void (*)(void *, const char *, const char *));
    int (*export_managed)(void *object, dl_managed **out);
    int (*import_managed)(dl_managed *tensor, void **out);
    int (*describe)(void *object, dl_tensor *out); // may be NULL
    int (*current_stream)(int32_t, int32_t, void **);
};

namespace {

// ---- types of tensors --------------------------------------------------------------------------------------------------

// How objects of one type become inputs.
struct Form {
    nb::object type; // held, so that its address stays its own
    bool has_hook = false; // __as_input__
    const dlpack_exchange *exchange = nullptr;
    bool has_gradients = false, has_signs = false; // torch's: elements are not all that such a tensor stands for
};

struct Names {
    nb::object as_input = name("__as_input__"), like_input = name("__like_input__"), requires_grad = name("requires_grad"),
               is_neg = name("is_neg"), is_conj = name("is_conj"), exchange = name("__dlpack_c_exchange_api__");
    static nb::object name(const char *text) { return nb::steal(PyUnicode_InternFromString(text)); }
};

const Names &names() {
    static const Names *made = new Names; // never deleted: the interpreter may end before statics do
    return *made;
}

bool has(PyObject *type, const nb::object &name) {
    nb::object found = nb::steal(PyObject_GetAttr(type, name.ptr()));
    if (!found.is_valid())
        PyErr_Clear();
    return found.is_valid();
}

// Only of a type's own: one that derives from a library's type of tensors may keep its elements elsewhere.
const dlpack_exchange *exchange_of(PyObject *type) {
    nb::object own = nb::steal(PyObject_GetAttrString(type, "__dict__"));
    nb::object capsule = own.is_valid() ? nb::steal(PyObject_GetItem(own.ptr(), names().exchange.ptr())) : nb::object();
    auto *found = capsule.is_valid() && PyCapsule_CheckExact(capsule.ptr())
                      ? static_cast<const dlpack_exchange *>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"))
                      : nullptr;
    PyErr_Clear();
    while (found && found->version.major > DL_MAJOR)
        found = found->previous;
    return found && found->version.major == DL_MAJOR && found->describe ? found : nullptr;
}

const Form &form_of(PyObject *object) {
    static auto *known = new std::unordered_map<PyTypeObject *, Form>; // under the interpreter's lock
    auto at = known->find(Py_TYPE(object));
    if (at != known->end())
        return at->second;
    auto *type = reinterpret_cast<PyObject *>(Py_TYPE(object));
    Form form; // whole before other threads see it: attributes may run Python code, which lets them go on
    form.type = nb::borrow(type);
    form.has_hook = has(type, names().as_input);
    form.exchange = form.has_hook ? nullptr : exchange_of(type);
    form.has_gradients = form.exchange && has(type, names().requires_grad);
    form.has_signs = form.exchange && has(type, names().is_neg) && has(type, names().is_conj);
    return known->try_emplace(reinterpret_cast<PyTypeObject *>(type), std::move(form)).first->second;
}

bool is_true(nb::object value) {
    int is = value.is_valid() ? PyObject_IsTrue(value.ptr()) : -1;
    if (is < 0)
        throw nb::python_error();
    return is;
}

bool calls_true(PyObject *object, const nb::object &method) {
    return is_true(nb::steal(PyObject_CallMethodObjArgs(object, method.ptr(), nullptr)));
}

bool is_dense(const dl_tensor &tensor) {
    int64_t step = 1;
    for (int32_t axis = tensor.rank - 1; tensor.strides && axis >= 0; axis--) {
        if (tensor.shape[axis] == 0)
            return true;
        if (tensor.shape[axis] != 1 && tensor.strides[axis] != step)
            return false;
        step *= tensor.shape[axis];
    }
    return true;
}

// DLPack's code of a numpy type, or -1: for types narrower than a byte, which DLPack packs.
int code_of(nb::handle dtype) {
    static auto *known = new std::unordered_map<PyObject *, int>; // numpy's own types and those of ml_dtypes, which stay
    auto at = known->find(dtype.ptr());
    if (at != known->end())
        return at->second;
    nb::object code = nb::module_::import_("burn.runtime.dtypes").attr("dlpack_code")(dtype);
    int found = code.is_none() ? -1 : nb::cast<int>(code);
    known->emplace(nb::object(nb::borrow(dtype)).release().ptr(), found);
    return found;
}

burn_input describe(PyObject *object, const Form &form, const Spec &spec, Kept &kept) {
    if (spec.is_text())
        mismatch("dtype");
    if (form.has_gradients && is_true(nb::steal(PyObject_GetAttr(object, names().requires_grad.ptr()))))
        mismatch("a gradient");
    if (form.has_signs && (calls_true(object, names().is_neg) || calls_true(object, names().is_conj)))
        mismatch("a lazy sign");
    dl_tensor tensor{};
    if (form.exchange->describe(object, &tensor) != 0) {
        PyErr_Clear();
        mismatch("not dense");
    }
    int64_t bytes = bytes_of(spec.dtype);
    if (tensor.device_type != DL_CPU)
        mismatch("another device");
    if (tensor.lanes != 1 || tensor.code != code_of(spec.dtype) || tensor.bits != 8 * bytes)
        mismatch("dtype");
    char *data = static_cast<char *>(tensor.data) + tensor.byte_offset;
    auto alignment = static_cast<uintptr_t>(PyDataType_ALIGNMENT(spec.descr()));
    if (tensor.rank < 0 || tensor.rank > BURN_MAX_RANK || !tensor.data || !is_dense(tensor) ||
        reinterpret_cast<uintptr_t>(data) % alignment)
        mismatch("layout");
    auto *dims = static_cast<int64_t *>(kept.bytes(tensor.rank * static_cast<int64_t>(sizeof(int64_t))));
    for (int32_t axis = 0; axis < tensor.rank; axis++) {
        dims[axis] = tensor.shape[axis];
        if (dims[axis] < 0 || __builtin_mul_overflow(bytes, dims[axis], &bytes))
            mismatch("dims");
    }
    return {data, bytes, tensor.rank, dims, 0, 0};
}

// ---- outputs -------------------------------------------------------------------------------------------------------------

// A numpy array's memory, for another library, with the array held until that library lets go.
struct Lent {
    dl_managed managed;
    PyObject *array;
    int64_t dims[2 * BURN_MAX_RANK];
};

void let_go(dl_managed *managed) {
    auto *lent = static_cast<Lent *>(managed->context);
    if (Py_IsInitialized()) { // the other library may let go in any thread, and after the interpreter's end
        PyGILState_STATE state = PyGILState_Ensure();
        Py_DECREF(lent->array);
        PyGILState_Release(state);
    }
    delete lent;
}

nb::object as_tensor(nb::handle output, const dlpack_exchange *exchange) {
    auto *array = reinterpret_cast<PyArrayObject *>(output.ptr());
    nb::object dtype = nb::borrow(reinterpret_cast<PyObject *>(PyArray_DESCR(array)));
    int code = code_of(dtype);
    if (code < 0)
        throw nb::buffer_error("DLPack has no layout for an output's type with one element a byte");
    auto *lent = new Lent{};
    int rank = PyArray_NDIM(array);
    int64_t step = 1, *strides = lent->dims + BURN_MAX_RANK;
    for (int axis = rank - 1; axis >= 0; axis--) {
        lent->dims[axis] = PyArray_DIM(array, axis);
        strides[axis] = step;
        step *= lent->dims[axis] ? lent->dims[axis] : 1;
    }
    lent->array = nb::object(nb::borrow(output)).release().ptr();
    lent->managed = {{DL_MAJOR, DL_MINOR}, lent, let_go, 0, {}};
    lent->managed.tensor = {PyArray_DATA(array),
                            DL_CPU,
                            0,
                            rank,
                            static_cast<uint8_t>(code),
                            static_cast<uint8_t>(8 * bytes_of(dtype)),
                            1,
                            lent->dims,
                            strides,
                            0};
    void *made = nullptr;
    if (exchange->import_managed(&lent->managed, &made) != 0) // which then has let go
        throw nb::python_error();
    return nb::steal(static_cast<PyObject *>(made));
}

} // namespace

bool is_exchanged(PyObject *object) { return form_of(object).exchange != nullptr; }

burn_input check_foreign(PyObject *object, const Spec &spec, burn_device *device, Kept &kept) {
    const Form &form = form_of(object);
    if (form.exchange && !device) {
        burn_input input = describe(object, form, spec, kept);
        if (!kept.exchange)
            kept.exchange = form.exchange;
        return input;
    }
    if (!form.has_hook)
        mismatch("not a numpy array");
    nb::object array = nb::steal(PyObject_CallMethodObjArgs(object, names().as_input.ptr(), nullptr));
    if (!array.is_valid())
        throw nb::python_error();
    if (!PyArray_Check(array.ptr()) && !nb::isinstance<DeviceArray>(array))
        mismatch("no elements");
    burn_input input = check_input(array.ptr(), spec, 0, device, kept);
    kept.objects.push_back(std::move(array));
    if (!kept.wrapper.is_valid()) {
        kept.wrapper = nb::steal(PyObject_GetAttr(object, names().like_input.ptr()));
        if (!kept.wrapper.is_valid())
            throw nb::python_error();
    }
    return input;
}

void give_foreign(nb::list &outputs, const Kept &kept) {
    if (!kept.wrapper.is_valid() && !kept.exchange)
        return;
    for (size_t i = 0; i < outputs.size(); i++) {
        nb::object output = outputs[i];
        outputs[i] = kept.wrapper.is_valid() ? kept.wrapper(output) : as_tensor(output, kept.exchange);
    }
}

namespace {

nb::object tensor_like(nb::object array, nb::object tensor) {
    const Form &form = form_of(tensor.ptr());
    if (!form.exchange || !PyArray_Check(array.ptr()) ||
        !PyArray_IS_C_CONTIGUOUS(reinterpret_cast<PyArrayObject *>(array.ptr())))
        return nb::none();
    return as_tensor(array, form.exchange);
}

} // namespace

void bind_foreign(nb::module_ &m) { m.def("tensor_like", &tensor_like, "array"_a, "tensor"_a); }
