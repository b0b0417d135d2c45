/* Hides features of the CPU from this process, so that engines which query the CPU choose older instructions.
 *
 * On Linux a thread can have the instruction `cpuid` fault (arch_prctl(2), ARCH_SET_CPUID), and threads that it starts do
 * as it does. Where CPU, kernel or virtual machine do not support that, the instruction is replaced in copies of the engines
 * by bytes that fault (patched.py). The handler executes `cpuid` itself, clears the bits that are to be hidden, and goes on
 * behind the instruction. __init__.py says which bits these are. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { ARCH_SET_CPUID = 0x1012, MOST = 64 };

typedef struct hidden {
    uint32_t leaf, part, registers[4]; /* bits of eax, ebx, ecx, edx that read as 0 */
} hidden;

static hidden rows[MOST];
static int count, is_faulting;
static struct sigaction before[2]; /* of SIGSEGV and SIGILL */

static long set_faulting(int on) { return syscall(SYS_arch_prctl, ARCH_SET_CPUID, on ? 0 : 1); }

static void answer(int signal, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    static const uint8_t CPUID[2] = {0x0f, 0xa2}, REPLACED[2] = {0xce, 0xa2};
    const int is_replaced = signal == SIGILL;
    (void)info;
    if (memcmp((const void *)registers[REG_RIP], is_replaced ? REPLACED : CPUID, sizeof CPUID)) {
        sigaction(signal, &before[is_replaced], NULL); /* another kind: it recurs, and the previous handler gets it */
        return;
    }
    uint32_t leaf = (uint32_t)registers[REG_RAX], part = (uint32_t)registers[REG_RCX], found[4];
    if (is_faulting)
        set_faulting(0);
    __cpuid_count(leaf, part, found[0], found[1], found[2], found[3]);
    if (is_faulting)
        set_faulting(1);
    for (int i = 0; i < count; i++)
        if (rows[i].leaf == leaf && rows[i].part == part)
            for (int r = 0; r < 4; r++)
                found[r] &= ~rows[i].registers[r];
    registers[REG_RAX] = found[0];
    registers[REG_RBX] = found[1];
    registers[REG_RCX] = found[2];
    registers[REG_RDX] = found[3];
    registers[REG_RIP] += sizeof CPUID;
}

/* Until `show` is called. 1 if all `cpuid` instructions of this thread fault, 0 if only replaced ones do, or -1 where this system
 * cannot. Threads that exist already see the CPU as it is; those that are started meanwhile do not see it later, either. */
int hide(const hidden *given, int number) {
    if (number > MOST)
        return -1;
    memcpy(rows, given, (size_t)number * sizeof *given);
    count = number;
    struct sigaction handler = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER}, there;
    for (int i = 0; i < 2; i++) {
        if (sigaction(i ? SIGILL : SIGSEGV, &handler, &there))
            return -1;
        if (there.sa_sigaction != answer)
            before[i] = there;
    }
    is_faulting = set_faulting(1) == 0;
    return is_faulting;
}

/* The handlers stay: threads that were started meanwhile, and replaced instructions, need them. */
void show(void) {
    if (is_faulting)
        set_faulting(0);
}
