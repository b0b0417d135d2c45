// DLPack, through nanobind: other libraries' arrays in this process's memory.
#include "binding_numpy.h"

#include <nanobind/ndarray.h>

#include "runtime.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// (array, code, bits): the array's elements are raw bytes of the right size, for the caller to view as the dtype that
// DLPack's code and bits stand for; numpy itself has neither bfloat16 nor the 8-bit floats.
nb::tuple from_dlpack(nb::handle capsule) {
    nb::ndarray<nb::ro> tensor;
    if (!nb::try_cast(capsule, tensor))
        throw nb::type_error("not a DLPack capsule");
    if (tensor.device_type() != nb::device::cpu::value)
        throw nb::value_error("not in this process's memory");
    nb::dlpack::dtype dtype = tensor.dtype();
    npy_intp itemsize = dtype.bits / 8;
    if (dtype.lanes != 1 || dtype.bits % 8 != 0 || itemsize == 0 || tensor.ndim() > BURN_MAX_RANK - 1)
        throw nb::value_error("elements of this kind are not supported");
    npy_intp dims[BURN_MAX_RANK], strides[BURN_MAX_RANK];
    int rank = static_cast<int>(tensor.ndim());
    for (int i = 0; i < rank; i++) {
        dims[i] = static_cast<npy_intp>(tensor.shape(static_cast<size_t>(i)));
        strides[i] = static_cast<npy_intp>(tensor.stride(static_cast<size_t>(i))) * itemsize;
    }
    auto *holder = new nb::ndarray<nb::ro>(tensor);
    nb::capsule owner(holder, [](void *held) noexcept { delete static_cast<nb::ndarray<nb::ro> *>(held); });
    PyArray_Descr *raw = PyArray_DescrNewFromType(NPY_VOID);
    if (!raw)
        throw nb::python_error();
    PyDataType_SET_ELSIZE(raw, itemsize);
    nb::object array = nb::steal(PyArray_NewFromDescr(&PyArray_Type, raw, rank, dims, strides,
                                                      const_cast<void *>(tensor.data()), 0, nullptr));
    if (!array.is_valid() ||
        PyArray_SetBaseObject(reinterpret_cast<PyArrayObject *>(array.ptr()), owner.release().ptr()) < 0)
        throw nb::python_error();
    PyArray_UpdateFlags(reinterpret_cast<PyArrayObject *>(array.ptr()), NPY_ARRAY_UPDATE_ALL);
    return nb::make_tuple(array, static_cast<int>(dtype.code), static_cast<int>(dtype.bits));
}

nb::object to_dlpack(nb::object object, int code, int bits) {
    if (!PyArray_Check(object.ptr()) || !PyArray_IS_C_CONTIGUOUS(reinterpret_cast<PyArrayObject *>(object.ptr())))
        throw nb::type_error("to_dlpack needs a contiguous numpy array");
    auto *array = reinterpret_cast<PyArrayObject *>(object.ptr());
    std::vector<size_t> shape;
    for (int i = 0; i < PyArray_NDIM(array); i++)
        shape.push_back(static_cast<size_t>(PyArray_DIM(array, i)));
    nb::dlpack::dtype dtype{static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
    return nb::cast(nb::ndarray<nb::array_api>(PyArray_DATA(array), shape.size(), shape.data(), object, nullptr, dtype,
                                               nb::device::cpu::value, 0));
}

} // namespace

void bind_dlpack(nb::module_ &m) {
    m.def("from_dlpack", &from_dlpack, "capsule"_a);
    m.def("to_dlpack", &to_dlpack, "array"_a, "code"_a, "bits"_a);
}
