/* What all probes share: a probe tries one thing, says how far it came, and ends.
 *
 * REACHED TEXT   and exit code 0: it did what it tried
 * REFUSED ERRNO STEP   and exit code 7: the first step that was refused, and how
 * Whether anything came of it is for the host to look at.
 */
#ifndef PROBE_H
#define PROBE_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define REFUSED_CODE 7

struct probe {
    const char *name;
    int (*run)(int argc, char **argv);
};

/* Each family ends with an empty entry. */
extern const struct probe files[], processes[], kernel[], sockets[], bombs[];

/* Says why a step was refused, by errno. */
int refused(const char *step);
/* Says what was reached; `text` may be NULL. */
int reached(const char *text);
/* The argument at `at`, or the end of the process. */
const char *argument(int argc, char **argv, int at);
/* Appends a line to a file through an open descriptor or a path; 0 when it was written. */
int scribble_at(int dir, const char *path);
/* Prints what a file says; 0 when something was read. */
int show_at(int dir, const char *path);
/* Calls `visit` for every process that /proc shows except this one, until it returns 0. */
int each_process(int (*visit)(int pid, void *data), void *data);

#endif
