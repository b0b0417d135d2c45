// Communicators as Python sees them (see communicator.h). The interpreter lock is released around calls that wait for other processes.
#include "binding.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

#include "communicator.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

void act(int32_t status) {
    if (status != BURN_OK)
        throw std::runtime_error(burn_communicator_error());
}

// A process's communicator for one device, or for the CPU. It is closed by `close`, not with the object: programs may use it.
class Communicator {
  public:
    Communicator(burn_communicator *own, burn_device *device) : own_(own), device_(device) {
        if (!own_)
            throw std::runtime_error(burn_communicator_error());
        act(burn_communicator_set(device_, own_));
    }
    burn_communicator *get() const {
        if (!own_)
            throw std::runtime_error("the communicator is closed");
        return own_;
    }
    void close() {
        if (!own_)
            return;
        burn_communicator_set(device_, nullptr);
        unlocked([&] { own_->close(own_); });
        own_ = nullptr;
    }

  private:
    burn_communicator *own_;
    burn_device *device_;
};

Communicator shared(const std::string &file, int32_t rank, int32_t ranks) {
    return Communicator(burn_shared_open(file.c_str(), rank, ranks), nullptr);
}

Communicator nccl(Device &device, int32_t rank, int32_t ranks) {
    return Communicator(unlocked([&] { return burn_nccl_open(device.get(), rank, ranks); }), device.get());
}

int32_t version(const std::string &library) {
    int32_t found = unlocked([&] { return burn_nccl_version(library.c_str()); });
    if (found < 0)
        throw std::runtime_error(burn_communicator_error());
    return found;
}

nb::bytes id() {
    char made[BURN_NCCL_ID];
    act(unlocked([&] { return burn_nccl_id(made); }));
    return nb::bytes(made, sizeof made);
}

} // namespace

void bind_communicators(nb::module_ &m) {
    nb::class_<Communicator>(m, "Communicator")
        .def("fail", [](Communicator &own) { burn_shared_fail(own.get()); })
        .def("reset", [](Communicator &own) { burn_shared_reset(own.get()); })
        .def("abort", [](Communicator &own, const std::string &why) { own.get()->abort(own.get(), why.c_str()); }, "why"_a,
             nb::call_guard<nb::gil_scoped_release>())
        .def("connect",
             [](Communicator &own, const std::vector<int64_t> &groups, int64_t size, nb::bytes with) {
                 if (with.size() != BURN_NCCL_ID || int64_t(groups.size()) != own.get()->ranks)
                     throw std::invalid_argument("an id has 128 bytes, and groups have all ranks");
                 act(unlocked([&] { return burn_nccl_connect(own.get(), groups.data(), size, with.c_str()); }));
             },
             "groups"_a, "size"_a, "id"_a)
        .def("close", &Communicator::close);
    m.def("shared_communicator", shared, "file"_a, "rank"_a, "ranks"_a, nb::rv_policy::move);
    m.def("shared_bytes", burn_shared_bytes, "ranks"_a);
    m.def("nccl_communicator", nccl, "device"_a, "rank"_a, "ranks"_a, nb::rv_policy::move);
    m.def("nccl_version", version, "library"_a);
    m.def("nccl_id", id);
    m.def("communicator_error", [] { return std::string(burn_communicator_error()); });
}
