/* Turns simulated_driver.c into a libcuda.so.1 for programs outside of the test's process. Each launch, with its memory, goes
 * through a socket to the test, which computes the kernel and sends the memory back.
 *
 * The socket's name is in BURN_SIMULATED_LAUNCHES; simulation.py has the other end. A message begins with a header; a header of no
 * threads is the last one, behind which comes what was misused first.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

typedef void (*launched)(const char *image, const char *function, uint32_t blocks, uint32_t threads, uint32_t shared,
                         void **parameters);
void burn_simulated_on_launch(launched callback);
int64_t burn_simulated_reach(uint64_t address);
void burn_simulated_fault(char text[256]);

enum { FAULT = 256 };

typedef struct header {
    uint32_t blocks, threads, shared, image, function, words; /* the last three: bytes, bytes, how many */
} header;

typedef struct word {
    uint64_t value;
    int64_t reach; /* bytes from there to the end of a block, 0 where it is no address */
} word;

typedef struct region {
    uint64_t address;
    int64_t bytes;
} region;

static int line = -1;

static void put(const void *data, size_t bytes) {
    for (ssize_t done; bytes; data = (const char *)data + done, bytes -= (size_t)done)
        if ((done = write(line, data, bytes)) <= 0)
            abort();
}

static void get(void *data, size_t bytes) {
    for (ssize_t done; bytes; data = (char *)data + done, bytes -= (size_t)done)
        if ((done = read(line, data, bytes)) <= 0)
            abort();
}

static void forward(const char *image, const char *function, uint32_t blocks, uint32_t threads, uint32_t shared,
                    void **parameters) {
    header head = {blocks, threads, shared, (uint32_t)strlen(image), (uint32_t)strlen(function), 0};
    while (parameters[head.words])
        head.words++;
    put(&head, sizeof head);
    put(image, head.image);
    put(function, head.function);
    for (uint32_t i = 0; i < head.words; i++) {
        word sent = {*(uint64_t *)parameters[i], burn_simulated_reach(*(uint64_t *)parameters[i])};
        put(&sent, sizeof sent);
    }
    uint32_t count;
    get(&count, sizeof count);
    region *regions = calloc(count + 1, sizeof *regions);
    get(regions, count * sizeof *regions);
    for (uint32_t i = 0; i < count; i++)
        put((const void *)(uintptr_t)regions[i].address, (size_t)regions[i].bytes);
    for (uint32_t i = 0; i < count; i++)
        get((void *)(uintptr_t)regions[i].address, (size_t)regions[i].bytes);
    free(regions);
}

__attribute__((constructor)) static void open_line(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *name = getenv("BURN_SIMULATED_LAUNCHES");
    if (!name)
        return;
    strncpy(address.sun_path, name, sizeof address.sun_path - 1);
    line = socket(AF_UNIX, SOCK_STREAM, 0);
    if (line < 0 || connect(line, (const struct sockaddr *)&address, sizeof address) != 0)
        abort();
    burn_simulated_on_launch(forward);
}

__attribute__((destructor)) static void close_line(void) {
    if (line < 0)
        return;
    header last = {0};
    char fault[FAULT] = "";
    burn_simulated_fault(fault);
    put(&last, sizeof last);
    put(fault, sizeof fault);
    close(line);
}
