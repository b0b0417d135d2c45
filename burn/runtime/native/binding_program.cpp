// Compiled programs as Python sees them. Nothing here computes; it checks arguments against a program's signature and releases
// the interpreter's lock around the run.
#include "binding_traced.h"
#include "binding_values.h"
#include "guarded.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <list>

namespace nb = nanobind;
using namespace nb::literals;

namespace {

PyObject *run_failure; // the exception; args: (burn_status, site, value, the device's reason or "")

// A device: its kind, its number, and its driver's file where that is not the usual one.
using DeviceSpec = std::tuple<std::string, int32_t, std::optional<std::string>>;

// ---- the interpreter lock -------------------------------------------------------------------------------------------

// True after a signal whose Python handler raises, such as Ctrl-C. The exception stays set.
int interrupted(void *context) {
    auto **state = static_cast<PyThreadState **>(context);
    take_lock(*state);
    int raised = PyErr_CheckSignals() < 0;
    *state = PyEval_SaveThread();
    return raised;
}

// ---- what programs ask of Python ------------------------------------------------------------------------------------

PyObject *image_decoder = nullptr;       // a function of the bytes and the form
thread_local PyObject *host_error = nullptr; // what it raised in this thread's run

void keep_host_error() {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    exchange(host_error, value);
    Py_XDECREF(type);
    Py_XDECREF(trace);
}

// Called in a run, which does not hold the interpreter's lock.
void *decode_image(burn_run *run, int64_t form, const void *data, int64_t bytes, int64_t sizes[2]) {
    PyGILState_STATE state = PyGILState_Ensure();
    void *pixels = nullptr;
    PyObject *result = PyObject_CallFunction(image_decoder, "y#L", static_cast<const char *>(data),
                                             static_cast<Py_ssize_t>(bytes), static_cast<long long>(form));
    if (result && PyArray_Check(result)) {
        auto *array = reinterpret_cast<PyArrayObject *>(result);
        if (PyArray_NDIM(array) == 3 && PyArray_TYPE(array) == NPY_UINT8 && PyArray_IS_C_CONTIGUOUS(array) &&
            PyArray_DIM(array, 2) == (form == 2 ? 1 : 3)) {
            sizes[0] = PyArray_DIM(array, 0);
            sizes[1] = PyArray_DIM(array, 1);
            pixels = burn_rt_alloc(run, PyArray_NBYTES(array));
            if (pixels)
                std::memcpy(pixels, PyArray_DATA(array), static_cast<size_t>(PyArray_NBYTES(array)));
        }
    }
    Py_XDECREF(result);
    if (PyErr_Occurred())
        keep_host_error();
    PyGILState_Release(state);
    return pixels;
}

PyObject *debug_host = nullptr; // a function of the callback's number, the text, and tensors: (dtype, sizes, bytes)

// As decode_image.
int call_debug_host(burn_run *, int64_t function, const char *text, int64_t bytes, int64_t count, const int64_t *words) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *tensors = PyList_New(0);
    for (int64_t i = 0; tensors && i < count; i++) {
        const int64_t *dims = words + 3, rank = words[2];
        int64_t size = burn_lib_element_bytes(words[1]);
        PyObject *sizes = PyTuple_New(static_cast<Py_ssize_t>(rank));
        for (int64_t axis = 0; sizes && axis < rank; axis++) {
            size *= dims[axis];
            PyTuple_SetItem(sizes, static_cast<Py_ssize_t>(axis), PyLong_FromLongLong(dims[axis]));
        }
        PyObject *item = sizes ? Py_BuildValue("LNy#", static_cast<long long>(words[1]), sizes,
                                               reinterpret_cast<const char *>(static_cast<uintptr_t>(words[0])),
                                               static_cast<Py_ssize_t>(size))
                               : nullptr;
        if (!item || PyList_Append(tensors, item) < 0)
            Py_CLEAR(tensors);
        Py_XDECREF(item);
        words += 3 + rank;
    }
    PyObject *result = tensors ? PyObject_CallFunction(debug_host, "Ly#N", static_cast<long long>(function), text,
                                                       static_cast<Py_ssize_t>(bytes), tensors)
                               : nullptr;
    Py_XDECREF(result);
    bool failed = PyErr_Occurred() != nullptr;
    if (failed)
        keep_host_error();
    PyGILState_Release(state);
    return failed;
}

PyObject *custom_host = nullptr; // of a function's number, operands and results: tuples of dtype, sizes and a view of the memory

// A list of tensors, whose elements Python sees in place; words is moved behind them.
PyObject *views(int64_t count, const int64_t *&words, int flags) {
    PyObject *tensors = PyList_New(0);
    for (int64_t i = 0; tensors && i < count; i++) {
        const int64_t *dims = words + 3, rank = words[2];
        int64_t size = burn_lib_element_bytes(words[1]);
        PyObject *sizes = PyTuple_New(static_cast<Py_ssize_t>(rank));
        for (int64_t axis = 0; sizes && axis < rank; axis++) {
            size *= dims[axis];
            PyTuple_SetItem(sizes, static_cast<Py_ssize_t>(axis), PyLong_FromLongLong(dims[axis]));
        }
        PyObject *view = PyMemoryView_FromMemory(reinterpret_cast<char *>(static_cast<uintptr_t>(words[0])),
                                                 static_cast<Py_ssize_t>(size), flags);
        PyObject *item = sizes && view ? Py_BuildValue("LOO", static_cast<long long>(words[1]), sizes, view) : nullptr;
        Py_XDECREF(sizes);
        Py_XDECREF(view);
        if (!item || PyList_Append(tensors, item) < 0)
            Py_CLEAR(tensors);
        Py_XDECREF(item);
        words += 3 + rank;
    }
    return tensors;
}

// As decode_image. The views are valid until it returns: the host copies what it keeps.
int call_custom_host(burn_run *, int64_t function, int64_t inputs, int64_t outputs, const int64_t *words) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *given = views(inputs, words, PyBUF_READ);
    PyObject *made = given ? views(outputs, words, PyBUF_WRITE) : nullptr;
    PyObject *result =
        made ? PyObject_CallFunction(custom_host, "LOO", static_cast<long long>(function), given, made) : nullptr;
    Py_XDECREF(given);
    Py_XDECREF(made);
    Py_XDECREF(result);
    bool failed = PyErr_Occurred() != nullptr;
    if (failed)
        keep_host_error();
    PyGILState_Release(state);
    return failed;
}

constexpr size_t MOST_EVENTS = 100000; // recorded individually in a profiled run

class Program {
  public:
    Program(nb::handle object_code, const std::string &entry, nb::sequence constants,
            const std::vector<std::pair<int64_t, int64_t>> &live_ranges,
            const std::vector<std::pair<nb::object, std::vector<int64_t>>> &inputs,
            const std::vector<nb::object> &outputs, int64_t kernel_count, std::vector<int64_t> aliases,
            const std::vector<Containers> &input_containers, const std::vector<Containers> &output_containers,
            const std::vector<std::pair<int64_t, int64_t>> &texts, const std::optional<DeviceSpec> &device,
            const std::vector<std::tuple<std::string, nb::object, int64_t, int32_t, bool>> &images,
            std::vector<std::string> sites, std::vector<nb::object> input_names)
        : kernels_(kernel_count), sites_(std::move(sites)), input_names_(std::move(input_names)) {
        char error[512];
        {
            Buffer code(object_code);
            image_ = burn_image_load(code.data(), static_cast<size_t>(code.bytes()), error, sizeof error);
        }
        if (!image_)
            throw nb::value_error((std::string("the object code cannot be loaded: ") + error).c_str());
        try {
            describe(inputs, outputs, input_containers, output_containers);
            if (device)
                open_device(*device, images);
            initialise(entry, constants, live_ranges, std::move(aliases), texts);
        } catch (...) {
            burn_image_unload(image_);
            throw;
        }
    }

    Program(const Program &) = delete;

    void release_memory() {
        unlocked([&] { return burn_program_release(program_), 0; });
    }
    int64_t arena_bytes() const { return burn_program_arena(program_); }

    void cancel() { burn_program_cancel(program_); }

    ~Program() {
        PyThreadState *state = device_ ? PyEval_SaveThread() : nullptr; // unloading kernels waits for the GPU
        burn_program_delete(program_);
        if (state)
            take_lock(state);
        burn_image_unload(image_);
    }

    // keep: outputs stay on the program's GPU; by default if an input is there.
    nb::object run(nb::sequence arguments, std::optional<std::vector<int64_t>> donated, bool profile,
                   std::optional<bool> keep, double seconds, int64_t bytes) {
        nb::object given = nb::steal(PySequence_Fast(arguments.ptr(), "inputs must be a sequence"));
        if (!given.is_valid())
            throw nb::python_error();
        if (static_cast<size_t>(count_of(given.ptr())) != inputs_.size())
            mismatch("wrong number of inputs");
        Kept kept;
        kept.accepts = true;
        if (!profile)
            return execute(given, kept, donated, nullptr, keep, seconds, bytes);
        std::vector<burn_profile_row> rows(static_cast<size_t>(kernels_));
        std::vector<burn_profile_event> events(MOST_EVENTS);
        burn_profile profiled{rows.data(), events.data(), 0, static_cast<int64_t>(events.size())};
        nb::object results = execute(given, kept, donated, &profiled, keep, seconds, bytes);
        nb::list timings;
        for (const burn_profile_row &row : rows)
            timings.append(nb::make_tuple(row.calls, row.nanoseconds));
        nb::list moments;
        for (int64_t i = 0; i < profiled.event_count; i++)
            moments.append(nb::make_tuple(events[i].kernel, events[i].began, events[i].took, events[i].on_device != 0));
        return nb::make_tuple(results, timings, moments);
    }

    // A run for arguments by position and by name, and the random state, if the program draws numbers. Outputs are of the
    // inputs' class.
    nb::object call(nb::tuple arguments, nb::dict named, nb::handle state, std::optional<std::vector<int64_t>> donated,
                    std::optional<bool> keep, double seconds, int64_t bytes) {
        nb::object given = in_order(arguments.ptr(), named.ptr(), state.is_none() ? nullptr : state.ptr());
        Kept kept;
        kept.accepts = gives_arrays_;
        nb::list outputs = execute(given, kept, donated, nullptr, keep, seconds, bytes);
        give_foreign(outputs, kept);
        return outputs;
    }

    // For inputs of these sizes. None: the host takes part in runs.
    nb::object trace(nb::object self, const std::vector<std::vector<int64_t>> &shapes, const std::vector<bool> &from_host,
                     std::vector<int64_t> into) {
        size_t count = inputs_.size();
        if (shapes.size() != count || from_host.size() != count)
            mismatch("wrong number of inputs");
        if (into.size() != outputs_.size())
            throw nb::value_error("into: one number an output");
        for (int64_t index : into)
            if (index >= static_cast<int64_t>(count))
                throw nb::index_error("into: no such input");
        std::vector<burn_input> inputs(count);
        std::vector<int32_t> sent(count);
        std::vector<int64_t> bytes(count);
        for (size_t i = 0; i < count; i++) {
            bytes[i] = bytes_of(inputs_[i].dtype);
            for (int64_t size : shapes[i])
                if (size < 0 || __builtin_mul_overflow(bytes[i], size, &bytes[i]))
                    mismatch("dims");
            inputs[i] = {nullptr, bytes[i], static_cast<int64_t>(shapes[i].size()), shapes[i].data(), 0, 1};
            sent[i] = from_host[i];
        }
        burn_failure failure;
        burn_traced *traced =
            unlocked([&] { return burn_program_trace(program_, inputs.data(), sent.data(), into.data(), &failure); });
        if (failure.code == BURN_INPUT_MISMATCH)
            mismatch("dims");
        if (failure.code != BURN_OK)
            fail(failure);
        if (!traced)
            return nb::none();
        return nb::cast(new Traced(traced, device_, std::move(self), count, outputs_.size(), std::move(sent), std::move(bytes)),
                        nb::rv_policy::take_ownership);
    }

  private:
    // All inputs in order, in a tuple that holds them: the caller's dictionary may change while the program runs.
    nb::object in_order(PyObject *arguments, PyObject *named, PyObject *state) const {
        auto count = static_cast<Py_ssize_t>(inputs_.size()), own = count - (state != nullptr);
        Py_ssize_t first = PyTuple_Size(arguments);
        if (first + PyDict_Size(named) != own)
            mismatch("wrong number of inputs");
        if (first == count)
            return nb::borrow(arguments);
        nb::object given = nb::steal(PyTuple_New(count));
        if (!given.is_valid())
            throw nb::python_error();
        for (Py_ssize_t i = 0; i < count; i++) {
            PyObject *value = state;
            if (i < first)
                value = PyTuple_GetItem(arguments, i);
            else if (i < own)
                value = i < static_cast<Py_ssize_t>(input_names_.size())
                            ? PyDict_GetItemWithError(named, input_names_[static_cast<size_t>(i)].ptr())
                            : nullptr;
            if (!value)
                PyErr_Occurred() ? throw nb::python_error() : mismatch("names");
            PyTuple_SetItem(given.ptr(), i, nb::borrow(value).release().ptr());
        }
        return given;
    }

    nb::list execute(const nb::object &given, Kept &kept, const std::optional<std::vector<int64_t>> &donated,
                     burn_profile *profile, std::optional<bool> keep, double seconds, int64_t bytes) {
        size_t count = inputs_.size();
        std::vector<burn_input> inputs(count);
        for (size_t i = 0; i < count; i++)
            inputs[i] = check_input(item_of(given.ptr(), i), inputs_[i], 0, device_, kept);
        if (donated)
            for (int64_t index : *donated) {
                if (index < 0 || static_cast<size_t>(index) >= count)
                    throw nb::index_error("donated: no such input");
                if (!is_writable(item_of(given.ptr(), static_cast<size_t>(index))))
                    mismatch("donated array: it is read-only");
                inputs[static_cast<size_t>(index)].donated = 1;
            }
        bool stay = keep.value_or(false);
        for (size_t i = 0; device_ && !keep && i < count; i++)
            stay |= inputs[i].on_device != 0;
        std::vector<burn_output> outputs(outputs_.size());
        PyThreadState *state = PyEval_SaveThread();
        int64_t deadline = 0;
        if (seconds > 0) {
            double nanoseconds = seconds * 1e9;
            deadline = nanoseconds < 9e18 ? burn_clock_ns() + static_cast<int64_t>(nanoseconds) : 0;
        }
        burn_options options{profile, interrupted, &state, stay, nullptr, deadline, bytes};
        burn_failure failure = burn_program_run(program_, inputs.data(), outputs.data(), &options);
        take_lock(state);
        if (failure.code == BURN_INPUT_MISMATCH)
            mismatch("dims");
        if (failure.code == BURN_HOST_FAILED && host_error) {
            nb::object error = nb::steal(std::exchange(host_error, nullptr));
            PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error.ptr())), error.ptr());
            throw nb::python_error();
        }
        if (failure.code == BURN_INTERRUPTED && PyErr_Occurred())
            throw nb::python_error();
        if (failure.code != BURN_OK)
            fail(failure);
        nb::list results = give_outputs(outputs, outputs_, given, device_);
        if (device_)
            heed(device_);
        return results;
    }

    [[noreturn]] void fail(const burn_failure &failure) const {
        bool of_device = device_ && burn_device_error_status() == failure.code &&
                         (failure.code == BURN_DEVICE_FAILED || failure.code == BURN_OUT_OF_MEMORY);
        nb::tuple details =
            nb::make_tuple(failure.code, failure.site, failure.value, of_device ? burn_device_error() : "");
        PyErr_SetObject(run_failure, details.ptr());
        throw nb::python_error();
    }

    void describe(const std::vector<std::pair<nb::object, std::vector<int64_t>>> &inputs,
                  const std::vector<nb::object> &outputs, const std::vector<Containers> &input_containers,
                  const std::vector<Containers> &output_containers) {
        if ((!input_containers.empty() && input_containers.size() != inputs.size()) ||
            (!output_containers.empty() && output_containers.size() != outputs.size()))
            throw nb::value_error("containers must be given for each input or output, or for none");
        for (const auto &[dtype, dims] : inputs) {
            inputs_.push_back({dtype_of(dtype), dims});
            if (!input_containers.empty())
                inputs_.back().containers = input_containers[inputs_.size() - 1];
        }
        for (const nb::object &dtype : outputs) {
            outputs_.push_back({dtype_of(dtype), {}});
            if (!output_containers.empty())
                outputs_.back().containers = output_containers[outputs_.size() - 1];
            gives_arrays_ &= outputs_.back().is_plain();
        }
    }

    void open_device(const DeviceSpec &device, const std::vector<std::tuple<std::string, nb::object, int64_t, int32_t, bool>> &images) {
        char error[512] = "";
        const auto &[kind, index, library] = device;
        device_ = burn_device_open(kind.c_str(), index, library ? library->c_str() : nullptr, error, sizeof error);
        if (!device_)
            throw nb::value_error(error);
        for (const auto &[name, image, shared, threads, early] : images) {
            Buffer code(image);
            names_.push_back(name);
            device_kernels_.push_back({code.data(), code.bytes(), names_.back().c_str(), shared, threads, early});
            held_.push_back(std::move(code));
        }
    }

    void initialise(const std::string &entry, nb::sequence constants,
                    const std::vector<std::pair<int64_t, int64_t>> &live_ranges, std::vector<int64_t> aliases,
                    const std::vector<std::pair<int64_t, int64_t>> &texts) {
        auto entry_function = reinterpret_cast<burn_entry_fn>(burn_image_symbol(image_, entry.c_str()));
        if (!entry_function)
            throw nb::value_error(("the object code has no function '" + entry + "'").c_str());
        if (aliases.empty())
            aliases.assign(outputs_.size(), -1);
        if (aliases.size() != outputs_.size())
            throw nb::value_error("aliases must name an input, or -1, for each output");
        if (kernels_ < 0 || kernels_ > (1 << 24))
            throw nb::value_error("kernel_count is out of range");
        hold_constants(constants);
        std::vector<burn_live_range> ranges;
        for (const auto &[first, last] : live_ranges)
            ranges.push_back({first, last});
        std::vector<burn_input_spec> input_specs;
        for (const Spec &spec : inputs_)
            input_specs.push_back({bytes_of(spec.dtype),
                                   spec.any_rank() ? BURN_ANY_RANK : static_cast<int64_t>(spec.dims.size()),
                                   spec.dims.data(), spec.kind()});
        std::vector<burn_output_spec> output_specs;
        for (size_t i = 0; i < outputs_.size(); i++)
            output_specs.push_back({outputs_[i].depth() ? static_cast<int64_t>(sizeof(int64_t)) : bytes_of(outputs_[i].dtype),
                                    aliases[i], outputs_[i].kind()});
        burn_program_info info{};
        info.entry = entry_function;
        info.inputs = static_cast<int64_t>(inputs_.size());
        info.outputs = static_cast<int64_t>(outputs_.size());
        info.constants = static_cast<int64_t>(constant_data_.size());
        info.buffers = static_cast<int64_t>(ranges.size());
        info.kernels = kernels_;
        info.constant_data = constant_data_.data();
        info.live_ranges = ranges.data();
        info.input_specs = input_specs.data();
        info.output_specs = output_specs.data();
        if (device_) {
            for (const std::string &site : sites_)
                site_names_.push_back(site.c_str());
            info.sites = site_names_.data();
            info.site_count = static_cast<int64_t>(site_names_.size());
            info.device = device_;
            info.device_kernels = device_kernels_.data();
            info.device_kernel_count = static_cast<int64_t>(device_kernels_.size());
            for (const auto &[index, count] : texts) // strings stay with the host
                if (index >= 0 && index < info.constants)
                    device_bytes_[static_cast<size_t>(index)] = -1;
            info.constant_bytes = device_bytes_.data();
        }
        char error[512];
        program_ = burn_program_new(&info, error, sizeof error);
        if (!program_)
            throw nb::value_error(error[0] ? error : "the program's tables are out of range");
        for (const auto &[index, count] : texts) {
            if (index < 0 || index >= info.constants)
                throw nb::value_error("texts: no such constant");
            int32_t status = burn_program_texts(program_, index, constant_bytes_[static_cast<size_t>(index)], count);
            if (status == BURN_OUT_OF_MEMORY)
                throw std::bad_alloc();
            if (status != BURN_OK)
                throw nb::value_error("a constant of strings is malformed");
        }
    }

    // Generated code may load constants with aligned instructions; those that do not lie on 64 bytes are copied once.
    void hold_constants(nb::sequence constants) {
        for (nb::handle constant : constants) {
            Buffer buffer(constant);
            void *data = buffer.data();
            int64_t bytes = buffer.bytes();
            if (reinterpret_cast<uintptr_t>(data) % BURN_ALIGNMENT != 0 || buffer.bytes() == 0 || burn_guards_are_on()) {
                std::unique_ptr<void, Freed> copy(burn_memory_new(buffer.bytes()));
                if (!copy)
                    throw std::bad_alloc();
                std::memcpy(copy.get(), data, static_cast<size_t>(buffer.bytes()));
                data = copy.get();
                copies_.push_back(std::move(copy));
            } else {
                held_.push_back(std::move(buffer));
            }
            constant_bytes_.push_back(bytes);
            device_bytes_.push_back(bytes);
            constant_data_.push_back(data);
        }
    }

    burn_image *image_ = nullptr;
    burn_program *program_ = nullptr;
    int64_t kernels_;
    std::vector<Spec> inputs_;
    std::vector<Spec> outputs_; // without dims
    bool gives_arrays_ = true;
    std::vector<Buffer> held_;
    std::vector<std::unique_ptr<void, Freed>> copies_;
    std::vector<void *> constant_data_;
    std::vector<int64_t> constant_bytes_;
    burn_device *device_ = nullptr;
    std::list<std::string> names_; // of device_kernels_
    std::vector<burn_device_kernel> device_kernels_;
    std::vector<std::string> sites_;
    std::vector<const char *> site_names_;
    std::vector<nb::object> input_names_; // str; the random state has none
    std::vector<int64_t> device_bytes_; // bytes of each constant that is copied to the GPU, or -1
};

// Bytes like those of an output, which a program that gets them as a donated input may write an output to.
nb::object new_bytes(int64_t count) {
    burn_output bytes{};
    bytes.data = burn_memory_new(count);
    if (!bytes.data)
        throw std::bad_alloc();
    bytes.bytes = bytes.dims[0] = count;
    bytes.rank = 1;
    return wrap(bytes, nb::steal(reinterpret_cast<PyObject *>(PyArray_DescrFromType(NPY_UINT8))), nb::handle());
}

nb::tuple plan(const std::vector<std::pair<int64_t, int64_t>> &live_ranges, const std::vector<int64_t> &sizes) {
    if (live_ranges.size() != sizes.size())
        throw nb::value_error("plan: as many sizes as live ranges");
    std::vector<burn_live_range> ranges;
    for (const auto &[first, last] : live_ranges)
        ranges.push_back({first, last});
    std::vector<int64_t> offsets(sizes.size());
    burn_plan_result result =
        burn_plan(ranges.data(), sizes.data(), static_cast<int64_t>(sizes.size()), offsets.data());
    if (result.status != BURN_OK) {
        PyErr_SetObject(run_failure, nb::make_tuple(result.status, -1, result.value).ptr());
        throw nb::python_error();
    }
    return nb::make_tuple(offsets, result.value);
}

} // namespace

void bind_programs(nb::module_ &m) {
    input_mismatch = PyErr_NewException("burn.runtime._native.InputMismatch", PyExc_ValueError, nullptr);
    run_failure = PyErr_NewException("burn.runtime._native.RunFailure", PyExc_RuntimeError, nullptr);
    m.attr("InputMismatch") = nb::borrow(input_mismatch);
    m.attr("RunFailure") = nb::borrow(run_failure);
    nb::class_<Program>(m, "Program")
        .def(nb::init<nb::handle, const std::string &, nb::sequence, const std::vector<std::pair<int64_t, int64_t>> &,
                      const std::vector<std::pair<nb::object, std::vector<int64_t>>> &, const std::vector<nb::object> &,
                      int64_t, std::vector<int64_t>, const std::vector<Containers> &, const std::vector<Containers> &,
                      const std::vector<std::pair<int64_t, int64_t>> &, const std::optional<DeviceSpec> &,
                      const std::vector<std::tuple<std::string, nb::object, int64_t, int32_t, bool>> &,
                      std::vector<std::string>, std::vector<nb::object>>(),
             "object_code"_a, "entry"_a, nb::kw_only(), "constants"_a, "live_ranges"_a, "inputs"_a, "outputs"_a,
             "kernel_count"_a, "aliases"_a = std::vector<int64_t>(),
             "input_containers"_a = std::vector<Containers>(), "output_containers"_a = std::vector<Containers>(),
             "texts"_a = std::vector<std::pair<int64_t, int64_t>>(), "device"_a = nb::none(),
             "images"_a = std::vector<std::tuple<std::string, nb::object, int64_t, int32_t, bool>>(),
             "sites"_a = std::vector<std::string>(), "input_names"_a = std::vector<nb::object>())
        .def("arena_bytes", &Program::arena_bytes)
        .def("release_memory", &Program::release_memory)
        .def("cancel", &Program::cancel)
        .def("trace", [](nb::object self, const std::vector<std::vector<int64_t>> &shapes, const std::vector<bool> &from_host,
                         std::vector<int64_t> into) {
            return nb::inst_ptr<Program>(self)->trace(self, shapes, from_host, std::move(into));
        }, "shapes"_a, "from_host"_a, "into"_a)
        .def("call", &Program::call, "arguments"_a, "named"_a, "state"_a.none() = nb::none(), "donated"_a = nb::none(),
             "keep"_a = nb::none(), "seconds"_a = 0.0, "bytes"_a = 0)
        .def("run", &Program::run, "inputs"_a, "donated"_a = nb::none(), "profile"_a = false,
             "keep"_a = nb::none(), "seconds"_a = 0.0, "bytes"_a = 0);
    m.def("set_image_decoder", [](nb::object decoder) {
        exchange(image_decoder, decoder.release().ptr());
        burn_set_image_decoder(decode_image);
    }, "decoder"_a);
    m.def("set_debug_host", [](nb::object function) {
        exchange(debug_host, function.release().ptr());
        burn_set_debug_host(call_debug_host);
    }, "function"_a);
    m.def("set_custom_host", [](nb::object function) {
        exchange(custom_host, function.release().ptr());
        burn_set_custom_host(call_custom_host);
    }, "function"_a);
    m.def("custom_check", [](bool is_on) { burn_custom_check(is_on); }, "is_on"_a);
    m.def("add_symbol", [](const std::string &name, uintptr_t address) {
        if (!burn_symbol_add(name.c_str(), reinterpret_cast<burn_function>(address)))
            throw std::bad_alloc();
    }, "name"_a, "address"_a);
    m.def("plan", &plan, "live_ranges"_a, "sizes"_a);
    m.def("new_bytes", &new_bytes, "count"_a);
}
