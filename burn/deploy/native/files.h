/* What a command's files need beyond C's library, which does otherwise on Windows. */
#ifndef BURN_FILES_H
#define BURN_FILES_H

/* Gives a file another's name, whose place it takes. 0, or -1 and errno. */
int burn_file_replace(const char *from, const char *to);

/* From now on standard input and output are bytes as they are, ends of lines included. */
void burn_streams_of_bytes(void);

#endif
