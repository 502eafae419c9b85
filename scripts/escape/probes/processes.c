/* Ways out by processes: what outlives its command, and what reaches into others. */
#include "probe.h"
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>

/* A process of the host that holds a secret in its memory, its environment and a descriptor. It says where
 * the secret is in its memory, and waits. */
static int hold(int argc, char **argv) {
    char *secret = strdup(argument(argc, argv, 1));
    int fd = open(argument(argc, argv, 0), O_RDONLY);
    printf("ready %d %p\n", fd, (void *)secret);
    for (;;) pause();
}

static void linger(const char *mark) {
    prctl(PR_SET_NAME, mark);
    for (int fd = 0; fd < 3; fd++) close(fd);
    sleep(60);
    _exit(0);
}

/* In its own session, from one fork or two. */
static int daemonise(int argc, char **argv) {
    const char *mark = argument(argc, argv, 0);
    pid_t child = fork();
    if (child < 0) return refused("fork");
    if (child == 0) {
        setsid();
        if (argc > 1 && fork() != 0) _exit(0);
        signal(SIGHUP, SIG_IGN);
        linger(mark);
    }
    return reached("a process in the background");
}

static int send(int argc, char **argv, int signal) {
    int pid = atoi(argument(argc, argv, 0));
    return kill(pid, signal) ? refused("kill") : reached("signal");
}
static int end(int argc, char **argv) { return send(argc, argv, SIGKILL); }
static int halt(int argc, char **argv) { return send(argc, argv, SIGSTOP); }

static int end_visible(int pid, void *data) {
    (void)data;
    if (pid == getppid()) return -1;
    kill(pid, SIGKILL);
    return -1;
}
static int end_all(int argc, char **argv) {
    (void)argc, (void)argv;
    each_process(end_visible, NULL);
    if (kill(-1, SIGTERM)) return refused("kill all");
    return reached("signal to all");
}

static int trace(int argc, char **argv) {
    int pid = atoi(argument(argc, argv, 0));
    long where = strtol(argument(argc, argv, 1), NULL, 16);
    if (ptrace(PTRACE_SEIZE, pid, NULL, NULL)) return refused("ptrace");
    ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
    waitpid(pid, NULL, __WALL);
    for (int word = 0; word < 8; word++) {
        long text = ptrace(PTRACE_PEEKDATA, pid, where + word * sizeof(long), NULL);
        fwrite(&text, 1, sizeof text, stdout);
    }
    putchar('\n');
    ptrace(PTRACE_DETACH, pid, NULL, NULL);
    return reached("another's memory");
}

static int peek(int argc, char **argv) {
    char text[64] = {0};
    struct iovec here = {text, sizeof text - 1};
    struct iovec there = {(void *)strtoul(argument(argc, argv, 1), NULL, 16), sizeof text - 1};
    if (process_vm_readv(atoi(argument(argc, argv, 0)), &here, 1, &there, 1, 0) < 0)
        return refused("process_vm_readv");
    puts(text);
    return reached("another's memory");
}

static int memory_file(int argc, char **argv) {
    char path[64], text[64] = {0};
    snprintf(path, sizeof path, "/proc/%d/mem", atoi(argument(argc, argv, 0)));
    int fd = open(path, O_RDONLY);
    if (fd < 0) return refused("open /proc/PID/mem");
    if (pread(fd, text, sizeof text - 1, strtoul(argument(argc, argv, 1), NULL, 16)) < 0) return refused("read");
    puts(text);
    return reached("another's memory");
}

static int show_environment(int pid, void *data) {
    (void)data;
    char path[64], text[1 << 16];
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    int fd = open(path, O_RDONLY);
    if (fd < 0) return -1;
    ssize_t got = read(fd, text, sizeof text);
    close(fd);
    for (ssize_t at = 0; at < got; at++)
        if (text[at] == 0) text[at] = '\n';
    if (got > 0 && memmem(text, got, "HELD=", 5)) fwrite(text, 1, got, stdout);
    return -1;
}
static int environments(int argc, char **argv) {
    (void)argc, (void)argv;
    each_process(show_environment, NULL);
    if (errno == 0) errno = ESRCH;
    return refused("open /proc/PID/environ");
}

static int lower_limit(int argc, char **argv) {
    struct rlimit limit = {atoi(argument(argc, argv, 1)), 1 << 10};
    if (prlimit(atoi(argument(argc, argv, 0)), RLIMIT_NOFILE, &limit, NULL)) return refused("prlimit");
    return reached("another's limit");
}

static int take_descriptor(int argc, char **argv) {
    int pidfd = syscall(SYS_pidfd_open, atoi(argument(argc, argv, 0)), 0);
    if (pidfd < 0) return refused("pidfd_open");
    int fd = syscall(SYS_pidfd_getfd, pidfd, atoi(argument(argc, argv, 1)), 0);
    if (fd < 0) return refused("pidfd_getfd");
    char text[64] = {0};
    if (pread(fd, text, sizeof text - 1, 0) < 0) return refused("read");
    puts(text);
    return reached("another's descriptor");
}

static int pin(int argc, char **argv) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    if (sched_setaffinity(atoi(argument(argc, argv, 0)), sizeof set, &set)) return refused("sched_setaffinity");
    return reached("another's processors");
}

static int slow(int argc, char **argv) {
    if (setpriority(PRIO_PROCESS, atoi(argument(argc, argv, 0)), 19)) return refused("setpriority");
    return reached("another's priority");
}

/* Types into the terminal of whoever started this. */
static int type_ahead(int argc, char **argv) {
    (void)argc, (void)argv;
    int tty = open("/dev/tty", O_RDWR);
    for (int fd = tty < 0 ? 0 : tty; fd >= 0; fd = fd == tty ? 0 : fd + 1) {
        if (ioctl(fd, TIOCSTI, "!") == 0) return reached("a key");
        if (fd > 2) break;
    }
    return refused("ioctl TIOCSTI");
}

static int terminal(int argc, char **argv) {
    (void)argc, (void)argv;
    int tty = open("/dev/tty", O_RDWR);
    if (tty < 0) return refused("open /dev/tty");
    return write(tty, "ESCAPED", 7) == 7 ? reached("the terminal") : refused("write");
}

/* Another's running program, opened for writing the moment that it does not run. */
static int overwrite_program(int argc, char **argv) {
    int fd = open(argument(argc, argv, 0), O_WRONLY | O_APPEND);
    if (fd < 0) return refused("open");
    return write(fd, "escaped\n", 8) == 8 ? reached("a program of the host") : refused("write");
}

static int namespaces(int pid, void *data) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/mnt", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    int done = setns(fd, CLONE_NEWNS);
    int error = errno;
    close(fd);
    errno = error;
    if (done) return -1;
    return scribble_at(AT_FDCWD, data);
}
static int join_namespace(int argc, char **argv) {
    /* Its own first: whether the call itself is let through does not depend on what is seen. */
    return each_process(namespaces, (void *)argument(argc, argv, 0)) ? refused("setns") : reached("the host's mounts");
}

/* A program that has no name: only the shape of the exec differs. */
static int from_memory(int argc, char **argv) {
    (void)argc, (void)argv;
    int here = open("/proc/self/exe", O_RDONLY), there = memfd_create("x", 0);
    char block[1 << 16];
    for (ssize_t got; (got = read(here, block, sizeof block)) > 0;)
        if (write(there, block, got) != got) return refused("write");
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", there);
    char *args[] = {"probe", "say", NULL};
    execv(path, args);
    return refused("execve");
}
static int say(int argc, char **argv) {
    (void)argc, (void)argv;
    return reached("it runs");
}

const struct probe processes[] = {
    {"hold", hold}, {"daemonise", daemonise}, {"end", end}, {"halt", halt}, {"end-all", end_all},
    {"trace", trace}, {"peek", peek}, {"memory-file", memory_file}, {"environments", environments},
    {"lower-limit", lower_limit}, {"take-descriptor", take_descriptor}, {"pin", pin}, {"slow", slow},
    {"type-ahead", type_ahead}, {"terminal", terminal}, {"overwrite-program", overwrite_program},
    {"join-namespace", join_namespace}, {"from-memory", from_memory}, {"say", say}, {NULL, NULL},
};
