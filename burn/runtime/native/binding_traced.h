// A traced program as an object of Python's, for binding_program.cpp.
#ifndef BURN_BINDING_TRACED_H
#define BURN_BINDING_TRACED_H

#include <mutex>

#include "binding.h"
#include "runtime.h"

class Traced {
  public:
    // Takes ownership of `traced`. program: its Python object, which outlives it. bytes: of each input.
    Traced(burn_traced *traced, burn_device *device, nanobind::object program, size_t inputs, size_t outputs,
           std::vector<int32_t> from_host, std::vector<int64_t> bytes);
    Traced(const Traced &) = delete;
    ~Traced();
    int64_t arena() const;
    int64_t steps() const;
    nanobind::list outputs() const; // of each: its sizes, and the input that it is written to, or -1
    // inputs: an address each; those that the host sends have any. from_host: their elements. outputs: an address for each that is
    // not written to an input.
    void submit(uintptr_t arena, nanobind::handle inputs, nanobind::handle from_host, nanobind::handle outputs, uintptr_t stream,
                bool as_graph);

  private:
    burn_traced *traced_;
    burn_device *device_;
    nanobind::object program_;
    size_t inputs_, own_outputs_ = 0;
    std::vector<int32_t> from_host_;
    std::vector<int64_t> bytes_;
    std::vector<burn_output> outputs_;
    std::mutex mutex_; // over the addresses and their submission
};

#endif
