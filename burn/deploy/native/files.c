/* See files.h. */
#if defined(_WIN32)
#define _CRT_RAND_S /* rand_s: random numbers of the system */
#endif
#include "files.h"

#include <errno.h>
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

static int open_new(burn_new_file *file) {
    char *random = file->temporary + strlen(file->temporary) - strlen("XXXXXXXX.tmp");
    for (int tries = 0; tries < 100; tries++) {
        unsigned number;
        if (rand_s(&number))
            break;
        snprintf(random, strlen("XXXXXXXX.tmp") + 1, "%08x.tmp", number);
        int handle = _open(file->temporary, _O_WRONLY | _O_BINARY | _O_CREAT | _O_EXCL, _S_IREAD | _S_IWRITE);
        if (handle >= 0 || errno != EEXIST)
            return handle;
    }
    errno = EEXIST;
    return -1;
}

static int keep_mode(const burn_new_file *file) {
    (void)file;
    return 0;
}

#define SEPARATORS "/\\"
#define BEGIN ""
#define WORD "XXXXXXXX.tmp"
#else
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

static int open_new(burn_new_file *file) {
    struct stat status;
    if (stat(file->path, &status) == 0 && S_ISDIR(status.st_mode)) {
        errno = EISDIR;
        return -1;
    }
    if (lstat(file->path, &status) == 0 && S_ISREG(status.st_mode)) /* a link is replaced: its target's mode is none of ours */
        file->mode = (int)(status.st_mode & 0777);
    return mkstemp(file->temporary); /* which opens no file or link that is there */
}

/* mkstemp's files are private. */
static int keep_mode(const burn_new_file *file) {
    mode_t mode = (mode_t)file->mode;
    if (file->mode < 0) {
        mode_t mask = umask(0);
        umask(mask);
        mode = 0666 & ~mask;
    }
    return fchmod(fileno(file->stream), mode);
}

#define SEPARATORS "/"
#define BEGIN "." /* hidden */
#define WORD "XXXXXX"
#endif

/* "folder/name" -> "folder/.name.XXXXXX". A long name is cut, as the file system may limit it. */
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

int burn_file_begin(burn_new_file *file, const char *path) {
    *file = (burn_new_file){NULL, path, NULL, -1};
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
    ok = ok && fflush(file->stream) == 0 && (!file->temporary || keep_mode(file) == 0);
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
    free(file->temporary);
    errno = why;
    return ok ? 0 : -1;
}
