/* File functions of commands beyond C's library, with variants for Windows. */
#ifndef BURN_FILES_H
#define BURN_FILES_H

#include <stdio.h>

/* A file that is being written. It replaces `path` when it is finished, so that others see all of it or nothing. A device, a pipe
 * or a standard stream by its path (/dev/stdout) is not replaced but written to. */
typedef struct burn_new_file {
    FILE *stream;
    const char *path;
    char *temporary; /* its random name until then; NULL: the stream is `path` itself */
    int mode;        /* permissions of the file that it replaces, or -1 */
    int durable;     /* set after burn_file_begin: it is on the disk before it replaces `path` */
} burn_new_file;

/* 0, or -1 and errno: there is nothing to finish then. */
int burn_file_begin(burn_new_file *file, const char *path);
/* Closes the stream. ok: 0 gives the file up. 0, or -1 and errno: nothing is left then. */
int burn_file_end(burn_new_file *file, int ok);
/* Makes such a file and removes it. 0, or -1 and errno: no file can be written there. */
int burn_file_try(const char *path);
/* 1 for two paths of one file that is there. */
int burn_same_file(const char *a, const char *b);

/* From now on standard input and output are bytes as they are, ends of lines included. */
void burn_streams_of_bytes(void);

#endif
