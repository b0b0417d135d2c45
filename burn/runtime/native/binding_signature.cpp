// Keys of calls, and comparisons of Python objects, for functions that are compiled by the types of their arguments (jitted.py).
//
// A key holds everything about the arguments that decides which program runs: types and sizes of tensors, containers with their
// keys, and all other values. It is finer than need be: calls with one program may have several keys. Arguments of further kinds
// have no key, and jitted.py looks at them one by one.
#include "binding_values.h"

#include <nanobind/stl/string.h>

#include <cstdlib>
#include <cstring>

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// ---- classes that other files register --------------------------------------------------------------------------------

PyObject *tensor_class, *recorded_class, *module_class; // Tensor, Deferred, Module

PyObject *name(const char *text) { return PyUnicode_InternFromString(text); }

struct Attributes {
    PyObject *value = name("_value"), *type = name("type"), *dtype = name("dtype"), *shape = name("shape"),
             *device = name("device"), *is_cpu = name("is_cpu");
};

const Attributes &attributes() {
    static const Attributes *made = new Attributes;
    return *made;
}

nb::object get(PyObject *object, PyObject *attribute) {
    nb::object found = nb::steal(PyObject_GetAttr(object, attribute));
    if (!found.is_valid())
        throw nb::python_error();
    return found;
}

// ---- keys --------------------------------------------------------------------------------------------------------------

class Key {
  public:
    // numbers_by_value: they are no leaves.
    explicit Key(bool numbers_by_value) : numbers_by_value_(numbers_by_value) {}

    // False for an argument of another kind.
    bool add(PyObject *value) {
        PyTypeObject *type = Py_TYPE(value);
        if (PyArray_CheckExact(value))
            return array(reinterpret_cast<PyArrayObject *>(value));
        if (reinterpret_cast<PyObject *>(type) == tensor_class)
            return tensor(value);
        if (value == Py_None || PyBool_Check(value) || type == &PyUnicode_Type || type == &PyBytes_Type)
            return by_value(value);
        if (type == &PyFloat_Type || type == &PyLong_Type)
            return number(value);
        if (type == &PyTuple_Type || type == &PyList_Type)
            return items(value);
        if (type == &PyDict_Type)
            return mapping(value);
        if (is_exchanged(value))
            return exchanged(value);
        if (module_class && PyObject_IsInstance(value, module_class) == 1)
            return by_value(value);
        PyErr_Clear();
        return false;
    }

    nb::object parts = nb::steal(PyList_New(0));  // then a tuple
    nb::object leaves = nb::steal(PyList_New(0)); // tensors and numbers in order
    bool has_numbers = false;

    void part(PyObject *object) {
        if (PyList_Append(parts.ptr(), object) < 0)
            throw nb::python_error();
    }

  private:
    void leaf(PyObject *value) {
        if (PyList_Append(leaves.ptr(), value) < 0)
            throw nb::python_error();
    }

    void count(Py_ssize_t number) { part(nb::steal(PyLong_FromSsize_t(number)).ptr()); }

    bool by_value(PyObject *value) {
        part(reinterpret_cast<PyObject *>(Py_TYPE(value)));
        part(value);
        return true;
    }

    // 0.0 equals -0.0, and no NaN equals itself.
    bool bits(PyObject *value) {
        double number = PyFloat_AsDouble(value);
        uint64_t pattern;
        std::memcpy(&pattern, &number, sizeof(pattern));
        part(reinterpret_cast<PyObject *>(Py_TYPE(value)));
        part(nb::steal(PyLong_FromUnsignedLongLong(pattern)).ptr());
        return true;
    }

    // False for a key that may equal another one which a function can tell from it, such as (1,) and (1.0,).
    bool key_of(PyObject *value) {
        PyTypeObject *type = Py_TYPE(value);
        bool known = value == Py_None || PyBool_Check(value) || type == &PyUnicode_Type || type == &PyBytes_Type ||
                     type == &PyLong_Type;
        return known && by_value(value);
    }

    bool number(PyObject *value) {
        if (numbers_by_value_)
            return PyFloat_CheckExact(value) ? bits(value) : by_value(value);
        part(reinterpret_cast<PyObject *>(Py_TYPE(value)));
        int overflow = 0;
        if (PyLong_CheckExact(value))
            (void)PyLong_AsLongLongAndOverflow(value, &overflow);
        if (overflow)
            return false; // an integer of more than 64 bits is of no type, or of another one
        has_numbers = true;
        leaf(value);
        return true;
    }

    bool array(PyArrayObject *value) {
        nb::object shape = nb::steal(PyTuple_New(PyArray_NDIM(value)));
        for (int axis = 0; axis < PyArray_NDIM(value); axis++)
            PyTuple_SetItem(shape.ptr(), axis, PyLong_FromSsize_t(PyArray_DIM(value, axis)));
        part(reinterpret_cast<PyObject *>(&PyArray_Type));
        part(reinterpret_cast<PyObject *>(PyArray_DESCR(value)));
        part(shape.ptr());
        leaf(reinterpret_cast<PyObject *>(value));
        return true;
    }

    bool tensor(PyObject *value) {
        const Attributes &names = attributes();
        nb::object held = get(value, names.value);
        if (reinterpret_cast<PyObject *>(Py_TYPE(held.ptr())) != recorded_class) // of a program that is being traced
            return false;
        nb::object type = get(held.ptr(), names.type);
        part(tensor_class);
        part(get(type.ptr(), names.dtype).ptr());
        part(get(type.ptr(), names.shape).ptr());
        part(get(held.ptr(), names.device).ptr());
        leaf(value);
        return true;
    }

    bool exchanged(PyObject *value) {
        const Attributes &names = attributes();
        nb::object is_cpu = nb::steal(PyObject_GetAttr(value, names.is_cpu)); // torch's
        if (!is_cpu.is_valid() || is_cpu.ptr() != Py_True) {
            PyErr_Clear();
            return false;
        }
        part(reinterpret_cast<PyObject *>(Py_TYPE(value)));
        part(get(value, names.dtype).ptr());
        part(get(value, names.shape).ptr());
        leaf(value);
        return true;
    }

    bool items(PyObject *value) {
        if (Py_EnterRecursiveCall(" in the arguments of a compiled function"))
            throw nb::python_error();
        Py_ssize_t size = count_of(value);
        part(reinterpret_cast<PyObject *>(Py_TYPE(value)));
        count(size);
        bool known = true;
        for (Py_ssize_t i = 0; known && i < size; i++)
            known = add(item_of(value, static_cast<size_t>(i)));
        Py_LeaveRecursiveCall();
        return known;
    }

    bool mapping(PyObject *value) {
        if (Py_EnterRecursiveCall(" in the arguments of a compiled function"))
            throw nb::python_error();
        part(reinterpret_cast<PyObject *>(Py_TYPE(value)));
        count(PyDict_Size(value));
        PyObject *key, *item;
        Py_ssize_t at = 0;
        bool known = true;
        while (known && PyDict_Next(value, &at, &key, &item)) {
            nb::object held = nb::borrow(item);
            known = key_of(key) && add(item);
        }
        Py_LeaveRecursiveCall();
        return known;
    }

    bool numbers_by_value_;
};

nb::object call_key(nb::tuple arguments, nb::dict named, nb::handle extra, bool numbers_by_value) {
    Key key(numbers_by_value);
    key.part(extra.ptr());
    if (!key.add(arguments.ptr()) || !key.add(named.ptr()))
        return nb::none();
    nb::object parts = nb::steal(PyList_AsTuple(key.parts.ptr()));
    if (!parts.is_valid())
        throw nb::python_error();
    if (PyObject_Hash(parts.ptr()) == -1) { // a value without a hash
        PyErr_Clear();
        return nb::none();
    }
    return nb::make_tuple(parts, key.leaves, key.has_numbers);
}

// ---- comparison by identity --------------------------------------------------------------------------------------------

bool is_same(PyObject *container, PyObject *items) {
    Py_ssize_t count = PyTuple_Size(items), next = 0;
    if (PyDict_Check(container)) {
        Py_ssize_t half = PyDict_Size(container);
        if (2 * half != count)
            return false;
        PyObject *key, *value;
        for (Py_ssize_t at = 0; PyDict_Next(container, &at, &key, &value); next++)
            if (next >= half || key != PyTuple_GetItem(items, next) || value != PyTuple_GetItem(items, half + next))
                return false;
        return true;
    }
    if (!PyList_Check(container) || PyList_Size(container) != count)
        return false;
    for (; next < count; next++)
        if (PyList_GetItem(container, next) != PyTuple_GetItem(items, next))
            return false;
    return true;
}

// True if each dictionary has these keys and then these values in this order, and each list these items.
bool all_same(nb::list pairs) {
    for (Py_ssize_t i = 0; i < PyList_Size(pairs.ptr()); i++) {
        PyObject *pair = PyList_GetItem(pairs.ptr(), i);
        if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2 || !PyTuple_Check(PyTuple_GetItem(pair, 1)))
            throw nb::type_error("all_same: pairs of a container and a tuple");
        if (!is_same(PyTuple_GetItem(pair, 0), PyTuple_GetItem(pair, 1)))
            return false;
    }
    return true;
}

// ---- attributes of many objects ----------------------------------------------------------------------------------------

nb::list get_all(nb::tuple objects, nb::str attribute) {
    nb::list found;
    for (Py_ssize_t i = 0; i < PyTuple_Size(objects.ptr()); i++)
        found.append(get(PyTuple_GetItem(objects.ptr(), i), attribute.ptr()));
    return found;
}

// values: a list of one for each object, or the value of all.
void set_all(nb::tuple objects, nb::str attribute, nb::handle values) {
    Py_ssize_t count = PyTuple_Size(objects.ptr());
    bool several = PyList_CheckExact(values.ptr());
    if (several && PyList_Size(values.ptr()) != count)
        throw nb::value_error("set_all: as many values as objects");
    for (Py_ssize_t i = 0; i < count; i++) {
        nb::object value = nb::borrow(several ? PyList_GetItem(values.ptr(), i) : values.ptr());
        if (PyObject_SetAttr(PyTuple_GetItem(objects.ptr(), i), attribute.ptr(), value.ptr()) < 0)
            throw nb::python_error();
    }
}

} // namespace

void bind_signatures(nb::module_ &m) {
    m.def("are_arrays", [](nb::list objects) {
        for (Py_ssize_t i = 0; i < PyList_Size(objects.ptr()); i++)
            if (!PyArray_CheckExact(PyList_GetItem(objects.ptr(), i)))
                return false;
        return true;
    }, "objects"_a);
    m.def("all_are", [](nb::list objects, nb::handle object) {
        for (Py_ssize_t i = 0; i < PyList_Size(objects.ptr()); i++)
            if (PyList_GetItem(objects.ptr(), i) != object.ptr())
                return false;
        return true;
    }, "objects"_a, "object"_a.none());
    m.def("get_all", &get_all, "objects"_a, "attribute"_a);
    m.def("set_all", &set_all, "objects"_a, "attribute"_a, "values"_a.none());
    m.def("call_key", &call_key, "arguments"_a, "named"_a, "extra"_a.none(), "numbers_by_value"_a);
    m.def("all_same", &all_same, "pairs"_a);
    m.def("set_tensor_classes", [](nb::object tensor, nb::object recorded) {
        exchange(tensor_class, tensor.release().ptr());
        exchange(recorded_class, recorded.release().ptr());
    }, "tensor"_a, "recorded"_a);
    m.def("set_module_class", [](nb::object module) { exchange(module_class, module.release().ptr()); }, "module"_a);
    m.def("environment", [](const std::string &name) -> nb::object {
        const char *value = std::getenv(name.c_str());
        return value ? nb::cast(std::string(value)) : nb::none();
    }, "name"_a);
}
