/*
 * Preloaded into a process under test: records what it does to the files of one folder, in order, so
 * that a test can rebuild them as a power cut would have left them. Kills of a process cannot show a
 * missing sync, because the operating system still writes what a dead process left in its cache.
 *
 * RECORD_FOLDER  paths below it are recorded
 * RECORD_LOG     where to: struct record, path, data; one after another
 * RECORD_FULL    while this file exists, writes to the journal's files fail as on a full disk
 * RECORD_BROKEN  while this file exists, syncs fail as on a broken disk
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, TRUNCATE = 2, SYNC = 3, UNLINK = 4, RENAME = 5, FOLDER = 6 };

struct record {
    uint32_t operation, path_length;
    uint64_t offset, data_length;
};

static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -1;

static int below(const char *path) {
    const char *folder = getenv("RECORD_FOLDER");
    return folder && path && strncmp(path, folder, strlen(folder)) == 0;
}

/* The path of a descriptor that is recorded. */
static int recorded(int fd, char *path, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, size - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return below(path);
}

static int flagged(const char *name) {
    const char *path = getenv(name);
    return path && access(path, F_OK) == 0;
}

static int ends_with(const char *path, const char *end) {
    size_t length = strlen(path), tail = strlen(end);
    return length >= tail && strcmp(path + length - tail, end) == 0;
}

static int no_space(const char *path) {
    return (ends_with(path, ".db") || ends_with(path, "-wal")) && flagged("RECORD_FULL");
}

static void note(uint32_t operation, const char *path, uint64_t offset, const void *data, uint64_t length) {
    int kept = errno;
    if (log_fd < 0)
        log_fd = syscall(SYS_openat, AT_FDCWD, getenv("RECORD_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    struct record record = {operation, strlen(path), offset, length};
    struct iovec parts[] = {
        {&record, sizeof record}, {(void *)path, record.path_length}, {(void *)data, data ? length : 0}};
    ssize_t wanted = parts[0].iov_len + parts[1].iov_len + parts[2].iov_len;
    if (syscall(SYS_writev, log_fd, parts, 3) != wanted) abort();
    errno = kept;
}

ssize_t write(int fd, const void *data, size_t length) {
    char path[4096];
    if (!recorded(fd, path, sizeof path)) return syscall(SYS_write, fd, data, length);
    if (no_space(path)) return errno = ENOSPC, -1;
    pthread_mutex_lock(&order);
    /* After the write, the position is right for files opened to append as well. */
    ssize_t written = syscall(SYS_write, fd, data, length);
    if (written > 0) note(WRITE, path, lseek(fd, 0, SEEK_CUR) - written, data, written);
    pthread_mutex_unlock(&order);
    return written;
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) {
    char path[4096];
    if (!recorded(fd, path, sizeof path)) return syscall(SYS_pwrite64, fd, data, length, offset);
    if (no_space(path)) return errno = ENOSPC, -1;
    pthread_mutex_lock(&order);
    ssize_t written = syscall(SYS_pwrite64, fd, data, length, offset);
    if (written > 0) note(WRITE, path, offset, data, written);
    pthread_mutex_unlock(&order);
    return written;
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) {
    return pwrite64(fd, data, length, offset);
}

int ftruncate64(int fd, off64_t length) {
    char path[4096];
    pthread_mutex_lock(&order);
    int result = syscall(SYS_ftruncate, fd, length);
    if (result == 0 && recorded(fd, path, sizeof path)) note(TRUNCATE, path, length, NULL, 0);
    pthread_mutex_unlock(&order);
    return result;
}

int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

/* Nothing reaches a disk here: what counts is that it was asked for. */
static int sync_file(int fd) {
    char path[4096];
    if (!recorded(fd, path, sizeof path)) return 0;
    if (flagged("RECORD_BROKEN")) return errno = EIO, -1;
    pthread_mutex_lock(&order);
    note(SYNC, path, 0, NULL, 0);
    pthread_mutex_unlock(&order);
    return 0;
}

int fsync(int fd) { return sync_file(fd); }
int fdatasync(int fd) { return sync_file(fd); }

int unlink(const char *path) {
    pthread_mutex_lock(&order);
    int result = syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    if (result == 0 && below(path)) note(UNLINK, path, 0, NULL, 0);
    pthread_mutex_unlock(&order);
    return result;
}

int rename(const char *from, const char *to) {
    pthread_mutex_lock(&order);
    int result = syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (result == 0 && below(from)) note(RENAME, from, 0, to, strlen(to));
    pthread_mutex_unlock(&order);
    return result;
}

int mkdir(const char *path, mode_t mode) {
    pthread_mutex_lock(&order);
    int result = syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    if (result == 0 && below(path)) note(FOLDER, path, 0, NULL, 0);
    pthread_mutex_unlock(&order);
    return result;
}
