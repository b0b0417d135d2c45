// burn.runtime._native: the C runtime as Python sees it. Nothing here computes; it checks arguments against a program's
// signature, releases the interpreter lock around the run, and wraps the outputs' memory in numpy arrays without a
// copy.
//
// numpy's own C interface is used because a small model's run takes a few microseconds, less than reading one array's
// address and shape through Python attributes. DLPack goes through nanobind.
#include "binding.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#define NPY_NO_DEPRECATED_API NPY_1_22_API_VERSION
#include <numpy/arrayobject.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <list>
#include <memory>
#include <optional>
#include <utility>

extern "C" {
#include "checksum.h"
}
#include "lib_keys.h"
#include "runtime.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

PyObject *input_mismatch; // an input does not fit the signature as it stands
PyObject *run_failure;    // args: (burn_status, site, value)

nb::object dtype_of(nb::handle spec) {
    PyArray_Descr *descr = nullptr;
    if (!PyArray_DescrConverter(spec.ptr(), &descr))
        throw nb::python_error();
    nb::object owned = nb::steal(reinterpret_cast<PyObject *>(descr));
    if (PyDataType_REFCHK(descr) && descr->type_num != NPY_OBJECT) // objects stand for strings
        throw nb::type_error("a program's tensors cannot hold Python objects");
    return owned;
}

PyArray_Descr *new_reference(nb::handle dtype) {
    return reinterpret_cast<PyArray_Descr *>(nb::object(nb::borrow(dtype)).release().ptr());
}

// ---- memory that outlives the call ----------------------------------------------------------------------------------

void free_capsule(PyObject *capsule) { burn_memory_free(PyCapsule_GetPointer(capsule, nullptr)); }

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

struct Freed {
    void operator()(void *memory) const { burn_memory_free(memory); }
};

// How a value is contained: 's' for a sequence, 'o' for an optional, from outside in, then '*' where the tensors may have
// any rank; and the burn_dtype of the tensors.
using Containers = std::pair<std::string, int32_t>;

// A device: its kind, its number, and its driver's file where that is not the usual one.
using Card = std::tuple<std::string, int32_t, std::optional<std::string>>;

// ---- Program --------------------------------------------------------------------------------------------------------

struct Spec {
    nb::object dtype;                   // object stands for strings
    std::vector<int64_t> dims;          // as in burn_input_spec
    Containers containers = {"", 0};

    PyArray_Descr *descr() const { return reinterpret_cast<PyArray_Descr *>(dtype.ptr()); }
    bool is_text() const { return descr()->type_num == NPY_OBJECT; }
    bool any_rank() const { return !containers.first.empty() && containers.first.back() == '*'; }
    size_t depth() const { return containers.first.size() - any_rank(); }
    burn_kind kind() const { return {is_text() ? BURN_TEXT : containers.second, static_cast<int32_t>(depth())}; }
    bool is_plain() const { return !is_text() && depth() == 0; }
};

// What a call's inputs point to besides the callers' arrays, as long as the call runs.
struct Kept {
    std::vector<std::unique_ptr<void, Freed>> memory;
    std::vector<nb::object> objects;

    void *bytes(int64_t count) {
        memory.emplace_back(burn_memory_new(count));
        if (!memory.back())
            throw std::bad_alloc();
        return memory.back().get();
    }
};

// ---- the interpreter lock -------------------------------------------------------------------------------------------

// Whether a signal has come whose Python handler raises, such as Ctrl-C. The exception stays set.
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
    if (PyErr_Occurred()) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        PyErr_NormalizeException(&type, &value, &trace);
        Py_XSETREF(host_error, value);
        Py_XDECREF(type);
        Py_XDECREF(trace);
    }
    PyGILState_Release(state);
    return pixels;
}

constexpr size_t MOST_EVENTS = 100000; // of a profiled run that are told one by one

class Program {
  public:
    Program(nb::handle object_code, const std::string &entry, nb::sequence constants,
            const std::vector<std::pair<int64_t, int64_t>> &live_ranges,
            const std::vector<std::pair<nb::object, std::vector<int64_t>>> &inputs,
            const std::vector<nb::object> &outputs, int64_t kernel_count, std::vector<int64_t> aliases,
            const std::vector<Containers> &input_containers, const std::vector<Containers> &output_containers,
            const std::vector<std::pair<int64_t, int64_t>> &texts, const std::optional<Card> &card,
            const std::vector<std::tuple<std::string, nb::object, int64_t, int32_t>> &images,
            std::vector<std::string> sites)
        : kernels_(kernel_count), sites_(std::move(sites)) {
        char error[512];
        {
            Buffer code(object_code);
            image_ = burn_image_load(code.data(), static_cast<size_t>(code.bytes()), error, sizeof error);
        }
        if (!image_)
            throw nb::value_error((std::string("the object code cannot be loaded: ") + error).c_str());
        try {
            describe(inputs, outputs, input_containers, output_containers);
            if (card)
                open_card(*card, images);
            initialise(entry, constants, live_ranges, std::move(aliases), texts);
        } catch (...) {
            burn_image_unload(image_);
            throw;
        }
    }

    Program(const Program &) = delete;

    int64_t arena_bytes() const { return burn_program_arena(program_); }

    ~Program() {
        PyThreadState *state = device_ ? PyEval_SaveThread() : nullptr; // unloading kernels waits for the card
        burn_program_delete(program_);
        if (state)
            take_lock(state);
        burn_image_unload(image_);
    }

    // keep: whether outputs stay on the program's card; without it, where an input lies there.
    nb::object run(nb::sequence arguments, std::optional<std::vector<int64_t>> donated, bool profile,
                   std::optional<bool> keep) {
        size_t count = inputs_.size();
        nb::object fast = nb::steal(PySequence_Fast(arguments.ptr(), "inputs must be a sequence"));
        if (!fast.is_valid())
            throw nb::python_error();
        if (static_cast<size_t>(PySequence_Fast_GET_SIZE(fast.ptr())) != count)
            mismatch("wrong number of inputs");
        std::vector<burn_input> inputs(count);
        Kept kept;
        for (size_t i = 0; i < count; i++)
            inputs[i] = check(PySequence_Fast_GET_ITEM(fast.ptr(), static_cast<Py_ssize_t>(i)), inputs_[i], 0, kept);
        if (donated)
            for (int64_t index : *donated) {
                if (index < 0 || static_cast<size_t>(index) >= count)
                    throw nb::index_error("donated: no such input");
                if (!is_writable(PySequence_Fast_GET_ITEM(fast.ptr(), static_cast<Py_ssize_t>(index))))
                    mismatch("donated array: it is read-only");
                inputs[static_cast<size_t>(index)].donated = 1;
            }
        bool stay = keep.value_or(false);
        for (size_t i = 0; device_ && !keep && i < count; i++)
            stay |= inputs[i].on_card != 0;
        std::vector<burn_output> outputs(outputs_.size());
        std::vector<burn_profile_row> rows(profile ? static_cast<size_t>(kernels_) : 0);
        std::vector<burn_profile_event> events(profile ? MOST_EVENTS : 0);
        burn_profile told{rows.data(), events.data(), 0, static_cast<int64_t>(events.size())};
        PyThreadState *state = PyEval_SaveThread();
        burn_options options{profile ? &told : nullptr, interrupted, &state, stay};
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
        if (failure.code != BURN_OK) {
            nb::tuple details = nb::make_tuple(failure.code, failure.site, failure.value);
            PyErr_SetObject(run_failure, details.ptr());
            throw nb::python_error();
        }
        nb::object results = take(outputs, fast);
        if (device_)
            heed(device_);
        if (!profile)
            return results;
        nb::list timings;
        for (const burn_profile_row &row : rows)
            timings.append(nb::make_tuple(row.calls, row.nanoseconds));
        nb::list moments;
        for (int64_t i = 0; i < told.event_count; i++)
            moments.append(nb::make_tuple(events[i].kernel, events[i].began, events[i].took, events[i].on_card != 0));
        return nb::make_tuple(results, timings, moments);
    }

  private:
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
        }
    }

    void open_card(const Card &card, const std::vector<std::tuple<std::string, nb::object, int64_t, int32_t>> &images) {
        char error[512] = "";
        const auto &[kind, index, library] = card;
        device_ = burn_device_open(kind.c_str(), index, library ? library->c_str() : nullptr, error, sizeof error);
        if (!device_)
            throw nb::value_error(error);
        for (const auto &[name, image, shared, threads] : images) {
            Buffer code(image);
            names_.push_back(name);
            device_kernels_.push_back({code.data(), code.bytes(), names_.back().c_str(), shared, threads});
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
                    on_card_[static_cast<size_t>(index)] = -1;
            info.constant_bytes = on_card_.data();
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
            if (reinterpret_cast<uintptr_t>(data) % BURN_ALIGNMENT != 0 || buffer.bytes() == 0) {
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
            on_card_.push_back(bytes);
            constant_data_.push_back(data);
        }
    }

    [[noreturn]] static void mismatch(const char *what) {
        PyErr_SetString(input_mismatch, what);
        throw nb::python_error();
    }

    static int64_t bytes_of(nb::handle dtype) {
        return PyDataType_ELSIZE(reinterpret_cast<PyArray_Descr *>(dtype.ptr()));
    }

    // What the runtime cannot see of an array: its type and its layout. The sizes are the runtime's to check. `level` is
    // how many containers are around the object.
    burn_input check(PyObject *object, const Spec &spec, size_t level, Kept &kept) const {
        if (level < spec.depth())
            return check_container(object, spec, level, kept);
        if (!PyArray_Check(object))
            return check_on_card(object, spec);
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

    // An array in the memory of the program's card.
    burn_input check_on_card(PyObject *object, const Spec &spec) const {
        if (!nb::isinstance<CardArray>(object))
            mismatch("not a numpy array");
        const CardArray &array = *nb::inst_ptr<CardArray>(object);
        if (array.device() != device_ || !spec.is_plain())
            mismatch("another device");
        auto *descr = reinterpret_cast<PyArray_Descr *>(array.dtype().ptr());
        if (descr != spec.descr() && !PyArray_EquivTypes(descr, spec.descr()))
            mismatch("dtype");
        return {array.address(), array.bytes(), static_cast<int64_t>(array.shape().size()), array.shape().data(), 0, 1};
    }

    static bool is_writable(PyObject *object) {
        if (PyArray_Check(object))
            return PyArray_ISWRITEABLE(reinterpret_cast<PyArrayObject *>(object));
        return nb::isinstance<CardArray>(object) && nb::inst_ptr<CardArray>(object)->is_writable();
    }

    // A list or tuple; for an optional, of at most one element.
    burn_input check_container(PyObject *object, const Spec &spec, size_t level, Kept &kept) const {
        if (!PyList_Check(object) && !PyTuple_Check(object))
            mismatch("not a list");
        Py_ssize_t count = PySequence_Fast_GET_SIZE(object);
        if (spec.containers.first[level] == 'o' && count > 1)
            mismatch("more than one");
        auto *length = static_cast<int64_t *>(kept.bytes(sizeof(int64_t)));
        auto *elements = static_cast<burn_input *>(kept.bytes(count * static_cast<int64_t>(sizeof(burn_input))));
        for (Py_ssize_t i = 0; i < count; i++)
            elements[i] = check(PySequence_Fast_GET_ITEM(object, i), spec, level + 1, kept);
        *length = count;
        return {elements, count * static_cast<int64_t>(sizeof(burn_input)), 1, length, 0, 0};
    }

    // An array of str as heap.h says that strings are packed.
    static burn_input pack(PyArrayObject *array, const int64_t *dims, Kept &kept) {
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

    // Every output becomes an array, or is freed: also when wrapping one of them throws.
    nb::list take(std::vector<burn_output> &outputs, nb::handle arguments) {
        nb::list results;
        size_t next = 0;
        try {
            for (; next < outputs.size();) {
                burn_output &output = outputs[next];
                nb::handle owner;
                if (output.taken_from >= 0)
                    owner = PySequence_Fast_GET_ITEM(arguments.ptr(), static_cast<Py_ssize_t>(output.taken_from));
                const Spec &spec = outputs_[next];
                if (output.on_card) {
                    next++;
                    results.append(wrap_on_card(output, spec.dtype, owner));
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
                if (!outputs[next].on_card)
                    burn_output_free(outputs_[next].kind(), &outputs[next]);
                else if (outputs[next].taken_from < 0)
                    unlocked([&] { burn_device_free(device_, outputs[next].data); });
            throw;
        }
        return results;
    }

    // The array owns the memory, or shares that of the donated input it was.
    nb::object wrap_on_card(const burn_output &output, nb::handle dtype, nb::handle owner) const {
        std::shared_ptr<CardMemory> memory;
        if (owner.is_valid())
            memory = nb::inst_ptr<CardArray>(owner)->memory();
        else
            memory = std::make_shared<CardMemory>(device_, output.data);
        std::vector<int64_t> shape(output.dims, output.dims + output.rank);
        return new_card_array({std::move(memory), output.data, output.bytes, nb::borrow(dtype), std::move(shape)});
    }

    // Strings as an array of str, a sequence as a list, an optional as its element or None. What becomes part of the
    // result is taken out of `output`.
    static nb::object build(burn_output &output, const Spec &spec, size_t level) {
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

    static nb::object unpack(const burn_output &output) {
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
            Py_XSETREF(items[i], text);
        }
        return array;
    }

    burn_image *image_ = nullptr;
    burn_program *program_ = nullptr;
    int64_t kernels_;
    std::vector<Spec> inputs_;
    std::vector<Spec> outputs_; // without dims
    std::vector<Buffer> held_;
    std::vector<std::unique_ptr<void, Freed>> copies_;
    std::vector<void *> constant_data_;
    std::vector<int64_t> constant_bytes_;
    burn_device *device_ = nullptr;
    std::list<std::string> names_; // of device_kernels_
    std::vector<burn_device_kernel> device_kernels_;
    std::vector<std::string> sites_;
    std::vector<const char *> site_names_;
    std::vector<int64_t> on_card_; // bytes of each constant that goes to the card, or -1
};

// ---- DLPack ---------------------------------------------------------------------------------------------------------

// (array, code, bits): the array's elements are raw bytes of the right size, for the caller to view as the dtype that
// DLPack's code and bits stand for; numpy itself knows neither bfloat16 nor the 8-bit floats.
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

// ---- the machine ----------------------------------------------------------------------------------------------------

std::vector<std::string> cpu_features() {
    std::vector<std::string> names;
    auto add = [](void *list, const char *name) { static_cast<std::vector<std::string> *>(list)->push_back(name); };
    burn_cpu_features(add, &names);
    return names;
}

std::string cpu_name() {
    char name[64];
    burn_cpu_name(name);
    return name;
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

nb::dict symbols() {
    nb::dict table;
    for (const burn_symbol *symbol = burn_symbols; symbol->name; symbol++)
        table[symbol->name] = reinterpret_cast<uintptr_t>(symbol->function);
    return table;
}

int import_numpy() {
    import_array1(-1);
    return 0;
}

} // namespace

// The checksum of a buffer's bytes (see checksum.c).
uint64_t checksum(nb::handle data) {
    Py_buffer view;
    if (PyObject_GetBuffer(data.ptr(), &view, PyBUF_SIMPLE) < 0)
        throw nb::python_error();
    uint64_t sum;
    {
        nb::gil_scoped_release release;
        sum = burn_checksum(view.buf, static_cast<size_t>(view.len));
    }
    PyBuffer_Release(&view);
    return sum;
}

NB_MODULE(_native, m) {
    // Compiled programs live in caches that outlast the module (torch.compile's, for one); the system has their memory then.
    nb::set_leak_warnings(false);
    if (import_numpy() < 0)
        throw nb::python_error();
    input_mismatch = PyErr_NewException("burn.runtime._native.InputMismatch", PyExc_ValueError, nullptr);
    run_failure = PyErr_NewException("burn.runtime._native.RunFailure", PyExc_RuntimeError, nullptr);
    m.attr("InputMismatch") = nb::borrow(input_mismatch);
    m.attr("RunFailure") = nb::borrow(run_failure);
    m.attr("__version__") = BURN_VERSION;
    m.attr("ANY_DIM") = BURN_ANY_DIM;

    nb::class_<Program>(m, "Program")
        .def(nb::init<nb::handle, const std::string &, nb::sequence, const std::vector<std::pair<int64_t, int64_t>> &,
                      const std::vector<std::pair<nb::object, std::vector<int64_t>>> &, const std::vector<nb::object> &,
                      int64_t, std::vector<int64_t>, const std::vector<Containers> &, const std::vector<Containers> &,
                      const std::vector<std::pair<int64_t, int64_t>> &, const std::optional<Card> &,
                      const std::vector<std::tuple<std::string, nb::object, int64_t, int32_t>> &,
                      std::vector<std::string>>(),
             "object_code"_a, "entry"_a, nb::kw_only(), "constants"_a, "live_ranges"_a, "inputs"_a, "outputs"_a,
             "kernel_count"_a, "aliases"_a = std::vector<int64_t>(),
             "input_containers"_a = std::vector<Containers>(), "output_containers"_a = std::vector<Containers>(),
             "texts"_a = std::vector<std::pair<int64_t, int64_t>>(), "card"_a = nb::none(),
             "images"_a = std::vector<std::tuple<std::string, nb::object, int64_t, int32_t>>(),
             "sites"_a = std::vector<std::string>())
        .def("arena_bytes", &Program::arena_bytes)
        .def("run", &Program::run, "inputs"_a, "donated"_a = nb::none(), "profile"_a = false,
             "keep"_a = nb::none());

    bind_devices(m);
    bind_arrays(m);
    m.def("set_image_decoder", [](nb::object decoder) {
        Py_XSETREF(image_decoder, decoder.release().ptr());
        burn_set_image_decoder(decode_image);
    }, "decoder"_a);
    m.def("plan", &plan, "live_ranges"_a, "sizes"_a);
    m.def("symbols", &symbols);
    m.def("from_dlpack", &from_dlpack, "capsule"_a);
    m.def("to_dlpack", &to_dlpack, "array"_a, "code"_a, "bits"_a);
    m.def("num_threads", &burn_pool_threads);
    m.def("set_num_threads", [](int threads) {
        if (threads < 1)
            throw nb::value_error("the number of threads must be at least 1");
        nb::gil_scoped_release release;
        burn_pool_set_threads(threads);
    }, "threads"_a);
    m.def("new_bytes", &new_bytes, "count"_a);
    m.def("trim_memory", [] {
        nb::gil_scoped_release released;
        burn_memory_trim();
    });
    m.def("checksum", &checksum, "data"_a);
    m.def("cpu_features", &cpu_features);
    m.def("cpu_name", &cpu_name);
    m.def("cpu_cores", &burn_cpu_cores);
    m.def("cache_bytes", &burn_cpu_cache_bytes, "level"_a);
    const char *threads = std::getenv("BURN_NUM_THREADS");
    if (threads && *threads && !burn_pool_threads_from(threads) &&
        PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "BURN_NUM_THREADS is '%s', which is no number of threads; using %d",
                         threads, static_cast<int>(burn_pool_threads())) < 0)
        throw nb::python_error();
    // The threads must not outlive the interpreter that tells them what to do.
    nb::module_::import_("atexit").attr("register")(nb::cpp_function([] { burn_pool_stop(); }));
}
