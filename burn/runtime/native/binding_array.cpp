// Arrays in a device's memory, as Python sees them and as programs take and give them.
#include "binding.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;

ArrayMemory::~ArrayMemory() {
    if (!owner_.is_valid())
        unlocked([this] { burn_device_free(device_, address_); });
    else if (stream_)
        unlocked([this] { burn_device_let_wait(device_, reinterpret_cast<void *>(*stream_)); });
    else
        unlocked([this] { burn_device_wait(device_); });
}

namespace {

// Keeps an array's memory alive while another library uses it. On release burn's later work waits for that library's stream.
class Lent {
  public:
    Lent(DeviceArray &array, uintptr_t stream) : memory_(array.memory()), stream_(stream) { memory_->set_ready(nullptr); }
    Lent(const Lent &) = delete;
    ~Lent() {
        unlocked([this] { burn_device_wait_for(memory_->device(), reinterpret_cast<void *>(stream_)); });
    }

  private:
    std::shared_ptr<ArrayMemory> memory_;
    uintptr_t stream_;
};

PyObject *array_type = nullptr; // burn.runtime.device_array.DeviceArray

int64_t bytes_of(nb::handle dtype, const std::vector<int64_t> &shape) {
    auto bytes = nb::cast<int64_t>(dtype.attr("itemsize"));
    for (int64_t size : shape)
        if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes))
            throw nb::value_error("no memory holds an array of this shape");
    return bytes;
}

nb::object new_array(Device &device, nb::object dtype, std::vector<int64_t> shape) {
    int64_t bytes = bytes_of(dtype, shape);
    void *address = unlocked([&] { return burn_device_alloc(device.get(), bytes); });
    if (!address)
        device_failed();
    auto memory = std::make_shared<ArrayMemory>(device.get(), address);
    return new_device_array({std::move(memory), address, bytes, std::move(dtype), std::move(shape)});
}

nb::object foreign_array(Device &device, uintptr_t address, nb::object dtype, std::vector<int64_t> shape, nb::object owner,
                         std::optional<uintptr_t> stream) {
    int64_t bytes = bytes_of(dtype, shape);
    auto memory = std::make_shared<ArrayMemory>(device.get(), std::move(owner), stream);
    return new_device_array({std::move(memory), reinterpret_cast<void *>(address), bytes, std::move(dtype), std::move(shape)});
}

nb::object reshaped(DeviceArray &array, std::vector<int64_t> shape) {
    int64_t bytes = bytes_of(array.dtype(), shape);
    if (bytes != array.bytes())
        throw nb::value_error("another number of elements");
    return new_device_array(
        {array.memory(), array.address(), bytes, nb::borrow(array.dtype()), std::move(shape), array.is_writable()});
}

nb::object read_only(DeviceArray &array) {
    return new_device_array({array.memory(), array.address(), array.bytes(), nb::borrow(array.dtype()), array.shape(), false});
}

nb::tuple shape_of(DeviceArray &array) {
    nb::object shape = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(array.shape().size())));
    if (!shape.is_valid())
        throw nb::python_error();
    for (size_t axis = 0; axis < array.shape().size(); axis++)
        if (PyTuple_SetItem(shape.ptr(), static_cast<Py_ssize_t>(axis), PyLong_FromLongLong(array.shape()[axis])) != 0)
            throw nb::python_error();
    return nb::borrow<nb::tuple>(shape);
}

} // namespace

nb::object new_device_array(DeviceArray array) {
    nb::object made = nb::inst_alloc(array_type ? nb::handle(array_type) : nb::type<DeviceArray>());
    new (nb::inst_ptr<DeviceArray>(made)) DeviceArray(std::move(array));
    nb::inst_mark_ready(made);
    return made;
}

void bind_arrays(nb::module_ &m) {
    nb::class_<DeviceArray>(m, "DeviceArray")
        .def_prop_ro("shape", &shape_of)
        .def_prop_ro("address", [](DeviceArray &array) { return reinterpret_cast<uintptr_t>(array.address()); })
        .def_prop_ro("nbytes", &DeviceArray::bytes)
        .def_prop_ro("numpy_dtype", &DeviceArray::dtype)
        .def_prop_ro("native_device", [](DeviceArray &array) { return new Device(array.device()); })
        .def_prop_ro("is_writable", &DeviceArray::is_writable)
        .def("read_only", &read_only)
        .def("fetched", [](DeviceArray &array) {
            std::shared_ptr<burn_device_moment> ready = array.memory()->ready(); // held: another thread may let it go meanwhile
            return fetch_new(array.device(), ready.get(), array.address(), array.bytes());
        })
        .def("lent", [](DeviceArray &array, uintptr_t stream) { return new Lent(array, stream); }, "stream"_a)
        .def("reshaped", &reshaped, "shape"_a);
    nb::class_<Lent>(m, "Lent");
    m.def("new_device_array", &new_array, "device"_a, "dtype"_a, "shape"_a);
    m.def("foreign_device_array", &foreign_array, "device"_a, "address"_a, "dtype"_a, "shape"_a, "owner"_a, "stream"_a.none());
    m.def("set_device_array_type", [](nb::object type) { exchange(array_type, type.release().ptr()); }, "type"_a);
}
