/* A thread leaves a CPU, and comes back to it when it avoids another; prints the sets of CPUs that it is allowed. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>

#include "system.h"

static void print_allowed(const char *label) {
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    printf("%s:", label);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed))
            printf(" %d", cpu);
    printf("\n");
}

static void allow(int first, int second) {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    CPU_SET(first, &allowed);
    CPU_SET(second, &allowed);
    sched_setaffinity(0, sizeof allowed, &allowed);
}

int main(void) {
    cpu_set_t all;
    int first = -1, second = -1;
    sched_getaffinity(0, sizeof all, &all);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all)) {
            if (first < 0)
                first = cpu;
            else if (second < 0)
                second = cpu;
        }
    if (second < 0)
        return 77;
    printf("two: %d %d\n", first, second);
    burn_placement placement = {0};
    allow(first, second);
    burn_avoid_cpu(&placement, first);
    print_allowed("avoids first");
    printf("runs on: %d\n", burn_cpu_now());
    burn_avoid_cpu(&placement, second);
    print_allowed("avoids second");
    allow(second, second); /* by someone else: the first is not given back */
    burn_avoid_cpu(&placement, second);
    print_allowed("only second");
    burn_avoid_cpu(&placement, -1);
    burn_avoid_cpu(&placement, CPU_SETSIZE);
    print_allowed("no such CPU");
    return 0;
}
