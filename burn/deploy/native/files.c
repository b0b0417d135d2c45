/* See files.h. */
#if defined(_WIN32)
#define _CRT_RAND_S /* rand_s: random numbers of the system */
#endif
#include "files.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <sys/stat.h>

#if defined(_WIN32)
#include <windows.h>

#include <io.h>

void burn_streams_of_bytes(void) {
    _setmode(_fileno(stdin), _O_BINARY);
    _setmode(_fileno(stdout), _O_BINARY);
}

static int replace(const char *from, const char *to) {
    if (MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING))
        return 0;
    errno = GetLastError() == ERROR_ACCESS_DENIED ? EACCES : EIO;
    return -1;
}

/* "NUL", "CON": not on a disk. */
static int is_stream(const char *path) {
    HANDLE handle = CreateFileA(path, 0, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, OPEN_EXISTING, 0, NULL);
    if (handle == INVALID_HANDLE_VALUE)
        return 0;
    DWORD type = GetFileType(handle);
    CloseHandle(handle);
    return type != FILE_TYPE_DISK;
}

static int open_stream(const char *path) { return _open(path, _O_WRONLY | _O_BINARY); }

static int random_number(unsigned *number) { return rand_s(number) == 0; }

static int open_exclusive(const char *path) {
    return _open(path, _O_WRONLY | _O_BINARY | _O_CREAT | _O_EXCL, _S_IREAD | _S_IWRITE);
}

/* 0, or -1 and errno: the path cannot be a file. */
static int look(burn_new_file *file) {
    (void)file;
    return 0;
}

static int keep_mode(const burn_new_file *file) {
    (void)file;
    return 0;
}

static int sync_file(FILE *stream) { return _commit(_fileno(stream)); }

static void sync_folder(const char *path) { (void)path; }

int burn_same_file(const char *a, const char *b) {
    BY_HANDLE_FILE_INFORMATION found[2];
    const char *paths[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        HANDLE handle = CreateFileA(paths[i], 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                    OPEN_EXISTING, 0, NULL);
        int ok = handle != INVALID_HANDLE_VALUE && GetFileInformationByHandle(handle, &found[i]);
        if (handle != INVALID_HANDLE_VALUE)
            CloseHandle(handle);
        if (!ok)
            return 0;
    }
    return found[0].dwVolumeSerialNumber == found[1].dwVolumeSerialNumber &&
           found[0].nFileIndexHigh == found[1].nFileIndexHigh && found[0].nFileIndexLow == found[1].nFileIndexLow;
}

#define SEPARATORS "/\\"
#define BEGIN ""
#else
#include <stdatomic.h>
#include <time.h>

#include <unistd.h>

void burn_streams_of_bytes(void) {}

static int replace(const char *from, const char *to) { return rename(from, to); }

/* /dev/stdout is a link to one of the process's descriptors, whatever that is: opened, and never replaced. */
static int names_descriptor(const char *path) {
    static const char processes[] = "/proc/", descriptors[] = "/dev/fd/";
    char link[sizeof processes];
    return strncmp(path, processes, strlen(processes)) == 0 || strncmp(path, descriptors, strlen(descriptors)) == 0 ||
           (readlink(path, link, strlen(processes)) == (ssize_t)strlen(processes) &&
            memcmp(link, processes, strlen(processes)) == 0);
}

static int is_stream(const char *path) {
    struct stat status;
    if (names_descriptor(path))
        return 1;
    return stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

static int open_stream(const char *path) {
    return open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | (names_descriptor(path) ? O_TRUNC : 0));
}

/* Differs between threads, processes and moments; a name that is taken is tried no second time. */
static int random_number(unsigned *number) {
    static _Atomic unsigned calls;
    struct timespec now = {0, 0};
    timespec_get(&now, TIME_UTC);
    uint64_t x = (uint64_t)now.tv_sec * 1000000007u + (uint64_t)now.tv_nsec;
    x ^= (uint64_t)getpid() << 32 ^ (uint64_t)atomic_fetch_add(&calls, 1) * UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    *number = (unsigned)(x >> 32);
    return 1;
}

/* The process's mask gives the permissions: it cannot be read without a change that other threads see. */
static int open_exclusive(const char *path) {
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0666); /* opens no file or link that is there */
}

/* 0, or -1 and errno: the path cannot be a file. */
static int look(burn_new_file *file) {
    struct stat status;
    if (stat(file->path, &status) == 0 && S_ISDIR(status.st_mode)) {
        errno = EISDIR;
        return -1;
    }
    if (lstat(file->path, &status) == 0 && S_ISREG(status.st_mode)) /* a link is replaced: its target's mode is none of ours */
        file->mode = (int)(status.st_mode & 0777);
    return 0;
}

static int keep_mode(const burn_new_file *file) {
    return file->mode < 0 ? 0 : fchmod(fileno(file->stream), (mode_t)file->mode);
}

static int sync_file(FILE *stream) { return fsync(fileno(stream)); }

/* The folder's entry of a file. A file system that cannot do it has the file itself already. */
static void sync_folder(const char *path) {
    const char *end = strrchr(path, '/');
    size_t length = end ? (size_t)(end - path) + 1 : 0;
    char *folder = malloc(length + 2);
    if (!folder)
        return;
    memcpy(folder, path, length);
    strcpy(folder + length, length ? "" : ".");
    int handle = open(folder, O_RDONLY | O_CLOEXEC);
    free(folder);
    if (handle < 0)
        return;
    (void)fsync(handle);
    close(handle);
}

int burn_same_file(const char *a, const char *b) {
    struct stat first, second;
    return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

#define SEPARATORS "/"
#define BEGIN "." /* hidden */
#endif

#define WORD "XXXXXXXX.tmp"

/* "folder/name" -> "folder/.name.XXXXXXXX.tmp". A long name is cut, as the file system may limit it. */
static char *aside(const char *path) {
    enum { MOST_NAME = 100 };
    size_t folder = 0;
    for (size_t i = 0; path[i]; i++)
        if (strchr(SEPARATORS, path[i]))
            folder = i + 1;
    size_t room = strlen(path) + sizeof BEGIN "." WORD;
    char *name = malloc(room);
    if (name)
        snprintf(name, room, "%.*s" BEGIN "%.*s." WORD, (int)folder, path, (int)MOST_NAME, path + folder);
    return name;
}

static int open_new(burn_new_file *file) {
    char *random = file->temporary + strlen(file->temporary) - strlen(WORD);
    unsigned number;
    if (look(file) != 0)
        return -1;
    for (int tries = 0; tries < 100 && random_number(&number); tries++) {
        snprintf(random, sizeof WORD, "%08x.tmp", number);
        int handle = open_exclusive(file->temporary);
        if (handle >= 0 || errno != EEXIST)
            return handle;
    }
    errno = EEXIST;
    return -1;
}

int burn_file_begin(burn_new_file *file, const char *path) {
    *file = (burn_new_file){NULL, path, NULL, -1, 0};
    int handle = -1;
    if (is_stream(path))
        handle = open_stream(path);
    else if ((file->temporary = aside(path)))
        handle = open_new(file);
    if (handle < 0) {
        free(file->temporary);
        return -1;
    }
    file->stream = fdopen(handle, "wb");
    if (file->stream)
        return 0;
    int why = errno;
    close(handle);
    if (file->temporary)
        remove(file->temporary);
    free(file->temporary);
    errno = why;
    return -1;
}

int burn_file_end(burn_new_file *file, int ok) {
    const int durable = file->durable && file->temporary;
    ok = ok && fflush(file->stream) == 0 && (!file->temporary || keep_mode(file) == 0) &&
         (!durable || sync_file(file->stream) == 0);
    int why = errno;
    if (fclose(file->stream) != 0 && ok) {
        ok = 0;
        why = errno;
    }
    if (ok && file->temporary && replace(file->temporary, file->path) != 0) {
        ok = 0;
        why = errno;
    }
    if (!ok && file->temporary)
        remove(file->temporary);
    if (ok && durable)
        sync_folder(file->path);
    free(file->temporary);
    errno = why;
    return ok ? 0 : -1;
}

int burn_file_try(const char *path) {
    burn_new_file file;
    if (is_stream(path))
        return 0; /* a pipe's reader would see its end */
    if (burn_file_begin(&file, path) != 0)
        return -1;
    burn_file_end(&file, 0);
    return 0;
}
