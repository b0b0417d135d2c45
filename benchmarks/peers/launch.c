/* ./launch COMMAND ...: prints the milliseconds until it ended and the most memory that it held, in KiB. A process begins with the
 * peak of the one that started it, so that a small one has to. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(int words, char **word) {
    (void)words;
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    pid_t child = fork();
    if (!child) {
        dup2(open("/dev/null", O_WRONLY), 1);
        execv(word[1], word + 1);
        _exit(127);
    }
    int status;
    struct rusage usage;
    wait4(child, &status, 0, &usage);
    clock_gettime(CLOCK_MONOTONIC, &to);
    printf("%.3f %ld\n", (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) * 1e-6,
           usage.ru_maxrss);
    return status != 0;
}
