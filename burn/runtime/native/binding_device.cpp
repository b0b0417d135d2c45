// Devices as Python sees them: memory, work, kernels (see device.h), and DLPack for what lies there. The interpreter lock is
// released around every call that may wait for the device, for its lock, or for the driver.
#include "binding.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <vector>

#include "runtime.h"

namespace nb = nanobind;
using namespace nb::literals;

void device_failed() {
    PyErr_SetString(burn_device_error_status() == BURN_OUT_OF_MEMORY ? PyExc_MemoryError : PyExc_RuntimeError,
                    burn_device_error());
    throw nb::python_error();
}

static PyObject *reported_error; // (code, site, value) -> the exception

void heed(burn_device *device) {
    burn_reported found;
    if (!unlocked([&] { return burn_device_reported(device, &found); }))
        return;
    nb::object error = nb::handle(reported_error)(found.code, static_cast<const char *>(found.name), found.value);
    PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error.ptr())), error.ptr());
    throw nb::python_error();
}

namespace {

// Something that burn_device_* does and may fail at.
template <typename Call> void act(Call call) {
    if (unlocked(call) != BURN_OK)
        device_failed();
}

template <typename Call> auto made(Call call) {
    auto *result = unlocked(call);
    if (!result)
        device_failed();
    return result;
}

const char *text_of(const std::optional<std::string> &text) { return text ? text->c_str() : nullptr; }

int32_t device_count(const std::string &kind, const std::optional<std::string> &library) {
    char error[512];
    int32_t count = unlocked([&] { return burn_device_count(kind.c_str(), text_of(library), error, sizeof error); });
    if (count < 0)
        throw std::runtime_error(error);
    return count;
}

// ---- addresses ------------------------------------------------------------------------------------------------------

// Where something lies on a device: a DeviceMemory, whose end is known, or an address.
void *address_of(nb::handle where, int64_t bytes) {
    if (bytes < 0)
        throw nb::value_error("a negative number of bytes");
    DeviceMemory *memory;
    if (!nb::try_cast(where, memory))
        return reinterpret_cast<void *>(nb::cast<uintptr_t>(where));
    if (bytes > memory->bytes())
        throw nb::value_error(("the memory has " + std::to_string(memory->bytes()) + " bytes, not " +
                               std::to_string(bytes)).c_str());
    return memory->address();
}

nb::object fetch(Device &device, nb::handle from, int64_t bytes, nb::object into) {
    void *address = address_of(from, bytes);
    if (into.is_none())
        return fetch_new(device.get(), nullptr, address, bytes);
    Buffer buffer(into, true);
    if (buffer.bytes() != bytes)
        throw nb::value_error("the buffer is not as long as what is fetched");
    act([&] { return burn_device_fetch(device.get(), buffer.data(), address, bytes); });
    heed(device.get());
    return into;
}

// The facts that need no context.
nb::dict fixed_facts(const burn_device_facts &facts) {
    nb::dict table;
    table["name"] = facts.name;
    table["architecture"] = facts.architecture;
    table["index"] = facts.index;
    table["processors"] = facts.processors;
    table["warp"] = facts.warp;
    table["memory"] = facts.memory;
    table["shared"] = facts.shared;
    table["driver"] = facts.driver;
    return table;
}

nb::dict facts_of(Device &device) {
    burn_device_facts facts;
    act([&] { return burn_device_describe(device.get(), &facts); });
    nb::dict table = fixed_facts(facts);
    table["free"] = facts.free;
    table["used"] = facts.used;
    table["kept"] = facts.kept;
    return table;
}

nb::dict preview(const std::string &kind, int32_t index, const std::optional<std::string> &library) {
    char error[512];
    burn_device_facts facts;
    if (unlocked([&] {
            return burn_device_preview(kind.c_str(), index, text_of(library), &facts, error, sizeof error);
        }) != BURN_OK)
        throw std::runtime_error(error);
    return fixed_facts(facts);
}

// ---- kernels --------------------------------------------------------------------------------------------------------

class Module {
  public:
    Module(burn_device *device, nb::handle image) {
        Buffer code(image);
        char error[512];
        module_ = unlocked([&] {
            return burn_device_load(device, code.data(), static_cast<size_t>(code.bytes()), error, sizeof error);
        });
        if (!module_)
            throw std::runtime_error(error);
    }
    Module(const Module &) = delete;
    ~Module() { // the holder of the device's lock may need the interpreter's
        unlocked([this] { burn_device_unload(module_); });
    }
    burn_device_function *find(const std::string &name, int64_t shared) {
        return made([&] { return burn_device_find(module_, name.c_str(), shared); });
    }

  private:
    burn_device_module *module_ = nullptr;
};

struct Function { // lives no longer than its module
    burn_device_function *function;
};

class Graph {
  public:
    explicit Graph(burn_device *device)
        : device_(device), graph_(made([device] { return burn_device_recorded(device); })) {}
    Graph(const Graph &) = delete;
    ~Graph() { burn_device_graph_delete(device_, graph_); }
    void replay() {
        act([this] { return burn_device_replay(device_, graph_); });
    }

  private:
    burn_device *device_;
    burn_device_graph *graph_;
};

class Moment {
  public:
    explicit Moment(burn_device *device) : moment_(made([device] { return burn_device_mark(device); })) {}
    Moment(const Moment &) = delete;
    ~Moment() { burn_device_moment_delete(moment_); }
    int64_t since(Moment &other) {
        int64_t nanoseconds = unlocked([&] { return burn_device_between(other.moment_, moment_); });
        if (nanoseconds < 0)
            device_failed();
        return nanoseconds;
    }

  private:
    burn_device_moment *moment_;
};

// ---- DLPack ---------------------------------------------------------------------------------------------------------

nb::object to_dlpack(nb::object owner, uintptr_t address, const std::vector<size_t> &shape, int code, int bits,
                     int device_type, int device_index) {
    nb::dlpack::dtype dtype{static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
    return nb::cast(nb::ndarray<nb::array_api>(reinterpret_cast<void *>(address), shape.size(), shape.data(), owner,
                                               nullptr, dtype, device_type, device_index));
}

nb::tuple from_dlpack(nb::handle capsule) {
    nb::ndarray<nb::ro> tensor;
    if (!nb::try_cast(capsule, tensor))
        throw nb::type_error("not a DLPack capsule");
    nb::dlpack::dtype dtype = tensor.dtype();
    if (dtype.lanes != 1)
        throw nb::value_error("elements of several lanes are not supported");
    std::vector<int64_t> shape, strides;
    for (size_t axis = 0; axis < tensor.ndim(); axis++) {
        shape.push_back(static_cast<int64_t>(tensor.shape(axis)));
        strides.push_back(tensor.stride(axis));
    }
    auto *holder = new nb::ndarray<nb::ro>(tensor);
    nb::capsule owner(holder, [](void *held) noexcept { delete static_cast<nb::ndarray<nb::ro> *>(held); });
    return nb::make_tuple(reinterpret_cast<uintptr_t>(tensor.data()), nb::tuple(nb::cast(shape)),
                          nb::tuple(nb::cast(strides)), static_cast<int>(dtype.code), static_cast<int>(dtype.bits),
                          tensor.device_type(), tensor.device_id(), owner);
}

} // namespace

nb::object fetch_new(burn_device *device, burn_device_moment *moment, const void *from, int64_t bytes) {
    void *data = burn_memory_new(bytes);
    if (!data)
        throw std::bad_alloc();
    nb::capsule owner(data, [](void *memory) noexcept { burn_memory_free(memory); });
    act([&] { return burn_device_fetch_after(device, moment, data, from, bytes); });
    heed(device);
    auto size = static_cast<size_t>(bytes);
    return nb::cast(nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>(data, {size}, owner));
}

Device::Device(const std::string &kind, int32_t index, const std::optional<std::string> &library) {
    char error[512];
    device_ = unlocked([&] { return burn_device_open(kind.c_str(), index, text_of(library), error, sizeof error); });
    if (!device_)
        throw std::runtime_error(error);
}

DeviceMemory::DeviceMemory(burn_device *device, int64_t bytes)
    : device_(device), address_(made([&] { return burn_device_alloc(device, bytes); })), bytes_(bytes) {}

DeviceMemory::~DeviceMemory() {
    unlocked([this] { burn_device_free(device_, address_); });
}

void bind_devices(nb::module_ &m) {
    m.def("device_count", &device_count, "kind"_a, "library"_a = nb::none());
    m.def("device_preview", &preview, "kind"_a, "index"_a = 0, "library"_a = nb::none());
    m.def("set_reported_error", [](nb::object make) { exchange(reported_error, make.release().ptr()); }, "make"_a);
    m.def("device_to_dlpack", &to_dlpack, "owner"_a, "address"_a, "shape"_a, "code"_a, "bits"_a, "device_type"_a,
          "device_index"_a);
    m.def("device_from_dlpack", &from_dlpack, "capsule"_a);

    nb::class_<DeviceMemory>(m, "DeviceMemory")
        .def_prop_ro("address", [](DeviceMemory &memory) { return reinterpret_cast<uintptr_t>(memory.address()); })
        .def_prop_ro("bytes", &DeviceMemory::bytes);

    nb::class_<Function>(m, "DeviceFunction");
    nb::class_<Module>(m, "DeviceModule")
        .def("find", [](Module &module, const std::string &name, int64_t shared) {
            return Function{module.find(name, shared)};
        }, "name"_a, "shared"_a = 0, nb::keep_alive<0, 1>());

    nb::class_<Graph>(m, "DeviceGraph");
    nb::class_<Moment>(m, "DeviceMoment").def("since", &Moment::since, "other"_a);

    nb::class_<Device>(m, "Device")
        .def(nb::init<const std::string &, int32_t, const std::optional<std::string> &>(), "kind"_a, "index"_a = 0,
             "library"_a = nb::none())
        .def("facts", &facts_of)
        .def_prop_ro("kind", [](Device &device) { return burn_device_kind(device.get()); })
        .def_prop_ro("index", [](Device &device) { return burn_device_index(device.get()); })
        .def("alloc", [](Device &device, int64_t bytes) { return new DeviceMemory(device.get(), bytes); }, "bytes"_a)
        .def("trim", [](Device &device) { unlocked([&] { burn_device_trim(device.get()); }); })
        .def("send", [](Device &device, nb::handle to, nb::handle from) {
            Buffer buffer(from);
            void *address = address_of(to, buffer.bytes());
            act([&] { return burn_device_send(device.get(), address, buffer.data(), buffer.bytes()); });
        }, "to"_a, "data"_a)
        .def("fetch", &fetch, "address"_a, "bytes"_a, "into"_a = nb::none())
        .def("copy", [](Device &device, nb::handle to, nb::handle from, int64_t bytes) {
            void *target = address_of(to, bytes), *source = address_of(from, bytes);
            act([&] { return burn_device_copy(device.get(), target, source, bytes); });
        }, "to"_a, "source"_a, "bytes"_a)
        .def("reaches", [](Device &device, Device &other) { return burn_device_reaches(device.get(), other.get()) != 0; },
             "other"_a)
        .def("copy_from", [](Device &device, nb::handle to, Device &other, nb::handle from, int64_t bytes) {
            void *target = address_of(to, bytes), *source = address_of(from, bytes);
            act([&] { return burn_device_copy_from(device.get(), target, other.get(), source, bytes); });
        }, "to"_a, "other"_a, "source"_a, "bytes"_a)
        .def("fill", [](Device &device, nb::handle to, uint8_t byte, int64_t bytes) {
            void *target = address_of(to, bytes);
            act([&] { return burn_device_fill(device.get(), target, byte, bytes); });
        }, "to"_a, "byte"_a, "bytes"_a)
        .def("wait", [](Device &device) {
            act([&] { return burn_device_wait(device.get()); });
            heed(device.get());
        })
        .def_prop_ro("stream", [](Device &device) { return reinterpret_cast<uintptr_t>(burn_device_stream(device.get())); })
        .def("wait_for", [](Device &device, uintptr_t stream) {
            act([&] { return burn_device_wait_for(device.get(), reinterpret_cast<void *>(stream)); });
        }, "stream"_a)
        .def("let_wait", [](Device &device, uintptr_t stream) {
            act([&] { return burn_device_let_wait(device.get(), reinterpret_cast<void *>(stream)); });
        }, "stream"_a)
        .def("load", [](Device &device, nb::handle image) { return new Module(device.get(), image); }, "image"_a)
        .def("launch", [](Device &device, Function &function, int64_t blocks, int32_t threads,
                          const std::vector<int64_t> &arguments) {
            act([&] {
                return burn_device_launch(device.get(), function.function, blocks, threads, arguments.data(),
                                          static_cast<int32_t>(arguments.size()));
            });
        }, "function"_a, "blocks"_a, "threads"_a, "arguments"_a)
        .def("record", [](Device &device) { act([&] { return burn_device_record(device.get()); }); })
        .def("recorded", [](Device &device) { return new Graph(device.get()); })
        .def("replay", [](Device &, Graph &graph) { graph.replay(); }, "graph"_a)
        .def("mark", [](Device &device) { return new Moment(device.get()); });
}
