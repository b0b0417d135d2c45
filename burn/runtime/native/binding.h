// Shared declarations of the Python binding.
#ifndef BURN_BINDING_H
#define BURN_BINDING_H

#define PY_SSIZE_T_CLEAN
#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <unistd.h>

#include "device.h"

// A Python object's bytes, held.
class Buffer {
  public:
    explicit Buffer(nanobind::handle object, bool writable = false) {
        if (PyObject_GetBuffer(object.ptr(), &view_, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) != 0)
            throw nanobind::python_error();
    }
    Buffer(Buffer &&other) noexcept : view_(other.view_) { other.view_.obj = nullptr; }
    Buffer(const Buffer &) = delete;
    ~Buffer() { PyBuffer_Release(&view_); }
    void *data() const { return view_.buf; }
    int64_t bytes() const { return view_.len; }

  private:
    Py_buffer view_{};
};

// Replaces `held` by `with`, whose reference it steals: Py_XSETREF, which the stable ABI lacks.
inline void exchange(PyObject *&held, PyObject *with) {
    PyObject *before = held;
    held = with;
    Py_XDECREF(before);
}

// Takes the interpreter lock again after a run. In a daemon thread, while the interpreter ends, Python ends the thread from in
// here, which unwinds the stack through destructors that need the lock: the thread waits for the process to end instead.
inline void take_lock(PyThreadState *state) {
    struct Waiting {
        bool armed = true;
        ~Waiting() {
            while (armed)
                pause();
        }
    } waiting;
    PyEval_RestoreThread(state);
    waiting.armed = false;
}

template <typename Call> auto unlocked(Call call) {
    PyThreadState *state = PyEval_SaveThread();
    if constexpr (std::is_void_v<decltype(call())>) {
        call();
        take_lock(state);
    } else {
        auto result = call();
        take_lock(state);
        return result;
    }
}

// ---- binding_program.cpp, binding_dlpack.cpp --------------------------------------------------------------------------

void bind_programs(nanobind::module_ &m);
void bind_dlpack(nanobind::module_ &m);
void bind_foreign(nanobind::module_ &m);       // binding_foreign.cpp
void bind_signatures(nanobind::module_ &m);    // binding_signature.cpp
void bind_communicators(nanobind::module_ &m); // binding_communicator.cpp

// ---- binding_device.cpp ---------------------------------------------------------------------------------------------

class Device {
  public:
    Device(const std::string &kind, int32_t index, const std::optional<std::string> &library);
    explicit Device(burn_device *device) : device_(device) {}
    burn_device *get() const { return device_; }

  private:
    burn_device *device_;
};

// Memory of a device, freed with the object.
class DeviceMemory {
  public:
    DeviceMemory(burn_device *device, int64_t bytes); // throws what Python calls a MemoryError
    DeviceMemory(burn_device *device, void *address, int64_t bytes) // takes over what burn_device_alloc gave
        : device_(device), address_(address), bytes_(bytes) {}
    DeviceMemory(const DeviceMemory &) = delete;
    ~DeviceMemory();
    burn_device *device() const { return device_; }
    void *address() const { return address_; }
    int64_t bytes() const { return bytes_; }

  private:
    burn_device *device_;
    void *address_;
    int64_t bytes_;
};

// Bytes of a device in a new array, when all work before a moment is done (null: all work), or a failure that has come until then.
nanobind::object fetch_new(burn_device *device, burn_device_moment *moment, const void *from, int64_t bytes);

// Raises what burn_device_error says: a MemoryError, or a RuntimeError.
[[noreturn]] void device_failed();

// Raises a failure that a kernel of an earlier run reported, if one has come to the host.
void heed(burn_device *device);

void bind_traced(nanobind::module_ &m);

void bind_devices(nanobind::module_ &m);

// ---- binding_array.cpp ----------------------------------------------------------------------------------------------

// Memory of a device that arrays share: burn's own, which is freed with the last of them, or another library's.
class ArrayMemory {
  public:
    // Takes ownership of memory from burn_device_alloc.
    ArrayMemory(burn_device *device, void *address) : device_(device), address_(address) {}
    // Another library's memory, valid while `owner` lives. On release that library's stream waits for burn's work so far;
    // without a stream the host waits.
    ArrayMemory(burn_device *device, nanobind::object owner, std::optional<uintptr_t> stream)
        : device_(device), owner_(std::move(owner)), stream_(stream) {}
    ArrayMemory(const ArrayMemory &) = delete;
    ~ArrayMemory();
    burn_device *device() const { return device_; }
    bool is_foreign() const { return owner_.is_valid(); }
    // The moment when the present contents are complete; null: when all submitted work is done. Takes ownership.
    std::shared_ptr<burn_device_moment> ready() const { return ready_; }
    void set_ready(burn_device_moment *moment) {
        ready_ = moment ? std::shared_ptr<burn_device_moment>(moment, burn_device_moment_delete) : nullptr;
    }

  private:
    burn_device *device_;
    void *address_ = nullptr;
    nanobind::object owner_;
    std::optional<uintptr_t> stream_;
    std::shared_ptr<burn_device_moment> ready_;
};

// A dense row-major array in a device's memory. The base class of Python's burn.runtime.device_array.DeviceArray.
class DeviceArray {
  public:
    DeviceArray(std::shared_ptr<ArrayMemory> memory, void *address, int64_t bytes, nanobind::object dtype,
              std::vector<int64_t> shape, bool writable = true)
        : memory_(std::move(memory)), address_(address), bytes_(bytes), dtype_(std::move(dtype)), shape_(std::move(shape)),
          writable_(writable) {}
    const std::shared_ptr<ArrayMemory> &memory() const { return memory_; }
    burn_device *device() const { return memory_->device(); }
    void *address() const { return address_; }
    int64_t bytes() const { return bytes_; }
    nanobind::handle dtype() const { return dtype_; }
    const std::vector<int64_t> &shape() const { return shape_; }
    bool is_writable() const { return writable_ && !memory_->is_foreign(); } // by an output, if it is donated

  private:
    std::shared_ptr<ArrayMemory> memory_;
    void *address_;
    int64_t bytes_;
    nanobind::object dtype_; // numpy's
    std::vector<int64_t> shape_;
    bool writable_;
};

// As an object of Python's class.
nanobind::object new_device_array(DeviceArray array);

void bind_arrays(nanobind::module_ &m);

#endif
