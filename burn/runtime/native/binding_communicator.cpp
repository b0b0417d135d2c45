// Communicators as Python sees them (see communicator.h). The interpreter lock is released around calls that wait for other processes.
#include "binding.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "communicator.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

void act(int32_t status) {
    if (status != BURN_OK)
        throw std::runtime_error(burn_communicator_error());
}

// A process's communicator for one device, or for the CPU. It is closed by `close`, not with the object: programs may use it. A call
// on another thread keeps it until the call ends.
class Communicator {
  public:
    using Held = std::shared_ptr<burn_communicator>;

    Communicator(burn_communicator *own, burn_device *device) : device_(device) {
        if (!own)
            throw std::runtime_error(burn_communicator_error());
        Held held(own, [](burn_communicator *closed) { closed->close(closed); });
        act(burn_communicator_set(device_, own));
        own_ = new Held(std::move(held));
    }
    Held held() const { return own_ ? *own_ : nullptr; }
    Held get() const {
        if (!own_)
            throw std::runtime_error("the communicator is closed");
        return *own_;
    }
    void close() {
        if (!own_)
            return;
        Held *last = std::exchange(own_, nullptr); // other threads come in while the interpreter lock is released
        if (burn_communicator_of(device_) == last->get())
            burn_communicator_set(device_, nullptr);
        unlocked([&] { delete last; });
    }

  private:
    Held *own_ = nullptr; // not deleted with the object
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
        .def("fail", [](Communicator &own) { burn_shared_fail(own.get().get()); })
        .def("reset", [](Communicator &own) { burn_shared_reset(own.get().get()); })
        .def("abort",
             [](Communicator &own, const std::string &why) {
                 auto held = own.held(); // none: it is closed, and nothing is under way
                 unlocked([&] {
                     if (held)
                         held->abort(held.get(), why.c_str());
                     held.reset();
                 });
             },
             "why"_a)
        .def("look",
             [](Communicator &own) -> std::optional<std::string> {
                 auto held = own.held();
                 bool failed = unlocked([&] {
                     bool found = held && burn_nccl_look(held.get()) != BURN_OK;
                     held.reset();
                     return found;
                 });
                 if (!failed)
                     return std::nullopt;
                 return burn_communicator_error();
             })
        .def("connect",
             [](Communicator &own, const std::vector<int64_t> &groups, int64_t size, nb::bytes with) {
                 auto held = own.get();
                 if (with.size() != BURN_NCCL_ID || int64_t(groups.size()) != held->ranks)
                     throw std::invalid_argument("an id has 128 bytes, and groups have all ranks");
                 act(unlocked([&] {
                     int32_t status = burn_nccl_connect(held.get(), groups.data(), size, with.c_str());
                     held.reset();
                     return status;
                 }));
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
