/* Communicators: the processes of a mesh as a program's collectives use them.
 *
 * A communicator is a table of functions. `communicator_shared.c` has processes on CPUs that share memory, `communicator_nccl.c` GPUs
 * through NVIDIA's library. A process has at most one for programs on the CPU and one for each GPU.
 */
#ifndef BURN_COMMUNICATOR_H
#define BURN_COMMUNICATOR_H

#include "device.h"
#include "runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In the order of KINDS in burn/codegen/host/collective.py, and of REDUCTIONS in burn/dialect/collective.py. */
enum burn_collective_kind { BURN_ALL_REDUCE, BURN_ALL_GATHER, BURN_REDUCE_SCATTER, BURN_BROADCAST };
enum burn_reduction { BURN_SUM, BURN_PROD, BURN_MAX, BURN_MIN };

/* elements: of the operand. dtype: a burn_dtype (lib_keys.h). */
typedef struct burn_collective_tensor {
    int64_t from, to, elements, dtype;
} burn_collective_tensor;

typedef struct burn_collective {
    int64_t kind, number; /* the reduction, or the root of a broadcast */
    int64_t size, ranks;  /* of a group, and of all */
    const int64_t *groups;
    int64_t count;
    const burn_collective_tensor *tensors;
} burn_collective;

typedef struct burn_communicator burn_communicator;
struct burn_communicator {
    const char *kind;
    int32_t rank, ranks;
    /* Does it, or submits it. A burn_status; BURN_COLLECTIVE_FAILED: burn_communicator_error has the reason. */
    int32_t (*run)(burn_communicator *own, burn_run *run, const burn_collective *what);
    /* Later work of the device follows the collective that writes this result. NULL: collectives have ended when `run` returns. */
    int32_t (*await)(burn_communicator *own, const void *result);
    /* From any thread: collectives under way and later ones fail with this reason. */
    void (*abort)(burn_communicator *own, const char *why);
    void (*close)(burn_communicator *own);
};

/* The reason of this process's last failure, one line; "" if there was none. */
const char *burn_communicator_error(void);
/* Sets the reason, and returns BURN_COLLECTIVE_FAILED. */
int32_t burn_communicator_refuse(const char *format, ...);

/* The communicator of programs on a device (NULL: on the CPU), or NULL. `set` replaces it. */
burn_communicator *burn_communicator_of(const burn_device *device);
int32_t burn_communicator_set(const burn_device *device, burn_communicator *communicator);

/* The position of a rank in its group, and the group's first entry in `groups`; -1 if it has none. */
int64_t burn_collective_position(const burn_collective *what, int64_t rank, const int64_t **group);
/* Elements of the result. */
int64_t burn_collective_result(const burn_collective *what, const burn_collective_tensor *tensor);

/* ---- communicator_shared.c: processes of one host ------------------------------------------------------------------------ */
/* Bytes of the file that `ranks` processes share. */
int64_t burn_shared_bytes(int32_t ranks);
/* The file has these bytes, zeroed. It may be unlinked when all processes have opened it. NULL: see burn_communicator_error. */
burn_communicator *burn_shared_open(const char *file, int32_t rank, int32_t ranks);
/* A program of this process has failed. Ends the collectives of the others. */
void burn_shared_fail(burn_communicator *own);
/* Ready for the next program, after all processes have failed. All call `reset` between two barriers. */
void burn_shared_reset(burn_communicator *own);

/* ---- communicator_nccl.c: GPUs --------------------------------------------------------------------------------------------- */
enum { BURN_NCCL_ID = 128 };
/* NCCL's version from a library, such as 22703 for 2.27.3; -1: see burn_communicator_error. Later calls use the same library. */
int32_t burn_nccl_version(const char *library);
int32_t burn_nccl_id(void *id); /* BURN_NCCL_ID bytes, for all processes of a group. A burn_status */
/* Of a device of the kind "cuda". */
burn_communicator *burn_nccl_open(burn_device *device, int32_t rank, int32_t ranks);
/* From any thread: BURN_COLLECTIVE_FAILED if a collective under way has an error. Those of an aborted communicator have none. */
int32_t burn_nccl_look(burn_communicator *own);
/* Connects this process with its group of `groups`; those processes call it with one id. A burn_status. */
int32_t burn_nccl_connect(burn_communicator *own, const int64_t *groups, int64_t size, const void *id);

#ifdef __cplusplus
}
#endif
#endif
