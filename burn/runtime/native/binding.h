// What the files of the Python binding share.
#ifndef BURN_BINDING_H
#define BURN_BINDING_H

#define PY_SSIZE_T_CLEAN
#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>

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

// ---- binding_device.cpp ---------------------------------------------------------------------------------------------

class Device {
  public:
    Device(const std::string &kind, int32_t index, const std::optional<std::string> &library);
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

// Raises what burn_device_error says: a MemoryError, or a RuntimeError.
[[noreturn]] void device_failed();

void bind_devices(nanobind::module_ &m);

#endif
