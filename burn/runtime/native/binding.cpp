// burn.runtime._native: the C runtime as Python sees it, and what it tells of the machine.
#define BURN_IMPORTS_NUMPY
#include "binding_numpy.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>

extern "C" {
#include "checksum.h"
#include "library_pages.h"
}
#include "runtime.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

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

nb::dict symbols() {
    nb::dict table;
    for (const burn_symbol *symbol = burn_symbols; symbol->name; symbol++)
        table[symbol->name] = reinterpret_cast<uintptr_t>(symbol->function);
    return table;
}

// The checksum of a buffer's bytes (see checksum.c).
uint64_t checksum(nb::handle data) {
    Buffer buffer(data);
    return unlocked([&] { return burn_checksum(buffer.data(), static_cast<size_t>(buffer.bytes())); });
}

// The offsets at which a buffer has the bytes of `pattern`, those that overlap included.
std::vector<size_t> find_all(nb::handle data, const nb::bytes &pattern) {
    Buffer buffer(data);
    const auto *first = static_cast<const char *>(buffer.data()), *last = first + buffer.bytes();
    if (pattern.size() == 0)
        throw nb::value_error("an empty pattern");
    return unlocked([&] {
        std::boyer_moore_horspool_searcher searcher(pattern.c_str(), pattern.c_str() + pattern.size());
        std::vector<size_t> found;
        for (const char *at = first; (at = std::search(at, last, searcher)) != last; at++)
            found.push_back(static_cast<size_t>(at - first));
        return found;
    });
}

int import_numpy() {
    import_array1(-1);
    return 0;
}

} // namespace

NB_MODULE(_native, m) {
    // Compiled programs live in caches that outlast the module (torch.compile's, for one); the system has their memory then.
    nb::set_leak_warnings(false);
    if (import_numpy() < 0)
        throw nb::python_error();
    m.attr("__version__") = BURN_VERSION;
    m.attr("ANY_DIM") = BURN_ANY_DIM;

    bind_programs(m);
    bind_traced(m);
    bind_devices(m);
    bind_arrays(m);
    bind_dlpack(m);
    bind_foreign(m);
    bind_signatures(m);
    bind_communicators(m);
    m.def("symbols", &symbols);
    m.def("num_threads", &burn_pool_threads);
    m.def("set_num_threads", [](int threads) {
        if (threads < 1)
            throw nb::value_error("the number of threads must be at least 1");
        nb::gil_scoped_release release;
        burn_pool_set_threads(threads);
    }, "threads"_a);
    m.def("trim_memory", [] {
        nb::gil_scoped_release released;
        burn_memory_trim();
    });
    m.def("release_library", [](const std::string &name) {
        return unlocked([&] { return burn_library_release(name.c_str()); });
    }, "name"_a);
    m.def("fresh_memory", [](int64_t count) {
        void *memory = burn_memory_new(count);
        nb::bytes held(memory, memory ? static_cast<size_t>(count) : 0);
        burn_memory_free(memory);
        return held;
    }, "count"_a);
    m.def("checksum", &checksum, "data"_a);
    m.def("find_all", &find_all, "data"_a, "pattern"_a);
    m.def("cpu_features", &cpu_features);
    m.def("cpu_name", &cpu_name);
    m.def("cpu_cores", &burn_cpu_cores);
    m.def("cache_bytes", &burn_cpu_cache_bytes, "level"_a);
    const char *threads = std::getenv("BURN_NUM_THREADS");
    if (threads && *threads && !burn_pool_threads_from(threads) &&
        PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "BURN_NUM_THREADS is '%s', which is no number of threads; using %d",
                         threads, static_cast<int>(burn_pool_threads())) < 0)
        throw nb::python_error();
    const char *poison = std::getenv("BURN_POISON");
    if (poison && *poison) {
        long byte = std::strtol(poison, nullptr, 10);
        if (byte < 1 || byte > 255)
            throw nb::value_error("BURN_POISON must be a byte from 1 to 255; 1 stands for 255, of which floats are NaN");
        burn_memory_poison(byte == 1 ? 255 : static_cast<int32_t>(byte));
    }
    const char *guard = std::getenv("BURN_GUARD");
    if (guard && *guard) {
        const bool at_end = std::strcmp(guard, "end") == 0;
        if (!at_end && std::strcmp(guard, "start") != 0)
            throw nb::value_error("BURN_GUARD must be end or start: the part of each buffer that lies next to a page without access");
        burn_memory_guard(at_end ? BURN_GUARD_END : BURN_GUARD_START);
    }
    // The threads must not outlive the interpreter that tells them what to do.
    nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
        nb::gil_scoped_release released; // a run that is under way may ask for it
        burn_pool_stop();
    }));
}
