/* See files.h. */
#include "files.h"

#include <errno.h>
#include <stdio.h>

#if defined(_WIN32)
#include <windows.h>

#include <fcntl.h>
#include <io.h>

int burn_file_replace(const char *from, const char *to) {
    if (MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING))
        return 0;
    errno = GetLastError() == ERROR_ACCESS_DENIED ? EACCES : EIO;
    return -1;
}

void burn_streams_of_bytes(void) {
    _setmode(_fileno(stdin), _O_BINARY);
    _setmode(_fileno(stdout), _O_BINARY);
}
#else
int burn_file_replace(const char *from, const char *to) { return rename(from, to); }
void burn_streams_of_bytes(void) {}
#endif
