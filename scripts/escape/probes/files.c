/* Ways out by the file tree: mounts, roots, links, handles, devices, attributes. */
#include "probe.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

/* A name that is a directory of our own one moment and a link outside the next. */
static atomic_int is_over;
static void *swap(void *outside) {
    while (!is_over) {
        rename("race", "race-dir");
        symlink(outside, "race");
        unlink("race");
        rename("race-dir", "race");
    }
    return NULL;
}

static int swap_race(int argc, char **argv) {
    pthread_t thread;
    mkdir("race", 0755);
    pthread_create(&thread, NULL, swap, (void *)argument(argc, argv, 0));
    for (int round = 0; round < 20000; round++) {
        int fd = open("race/raced", O_WRONLY | O_CREAT | O_APPEND, 0644);
        if (fd >= 0) close(fd);
    }
    is_over = 1;
    pthread_join(thread, NULL);
    errno = ENOENT;
    return refused("open race/raced outside");
}

static int hard_link(int argc, char **argv) {
    const char *victim = argument(argc, argv, 0);
    if (linkat(AT_FDCWD, victim, AT_FDCWD, "hard", 0)) return refused("link");
    return scribble_at(AT_FDCWD, "hard") ? refused("write") : reached("hard link");
}

static int write_file(int argc, char **argv) {
    return scribble_at(AT_FDCWD, argument(argc, argv, 0)) ? refused("open") : reached("written");
}

static int read_file(int argc, char **argv) {
    return show_at(AT_FDCWD, argument(argc, argv, 0)) ? refused("open") : reached("read");
}

/* Every process's view of the file tree; `data` is a format with the process id. */
static int scribble_through(int pid, void *data) {
    char path[4096];
    snprintf(path, sizeof path, data, pid);
    return scribble_at(AT_FDCWD, path);
}

static int through_processes(int argc, char **argv) {
    char format[4096];
    snprintf(format, sizeof format, "/proc/%%d/%s", argument(argc, argv, 0));
    return each_process(scribble_through, format) ? refused("open below /proc/PID") : reached(format);
}

/* Descriptors that whoever started this left open. */
static int descriptors(int argc, char **argv) {
    const char *name = argument(argc, argv, 0);
    int found = -1;
    for (int fd = 3; fd < 1024; fd++) {
        struct stat stat;
        if (fstat(fd, &stat)) continue;
        if (S_ISDIR(stat.st_mode) && scribble_at(fd, name) == 0) found = fd;
        char text[512];
        ssize_t got = S_ISREG(stat.st_mode) ? pread(fd, text, sizeof text, 0) : -1;
        if (got > 0) fwrite(text, 1, got, stdout);
    }
    errno = EBADF;
    return found < 0 ? refused("descriptors from 3 on") : reached("an inherited descriptor");
}

static int bind_mount(int argc, char **argv) {
    mkdir("bound", 0755);
    if (mount(argument(argc, argv, 0), "bound", NULL, MS_BIND, NULL)) return refused("mount");
    int done = scribble_at(AT_FDCWD, "bound/victim");
    umount2("bound", MNT_DETACH);
    return done ? refused("write") : reached("bind mount");
}

static int overlay_mount(int argc, char **argv) {
    (void)argc, (void)argv;
    mkdir("upper", 0755), mkdir("work", 0755), mkdir("merged", 0755);
    if (mount("none", "merged", "overlay", 0, "lowerdir=/etc,upperdir=upper,workdir=work")) return refused("mount");
    umount2("merged", MNT_DETACH);
    return reached("overlay over /etc");
}

static int mount_over(int argc, char **argv) {
    const char *victim = argument(argc, argv, 0);
    if (mount("none", victim, "tmpfs", 0, "size=64k")) return refused("mount");
    return reached("tmpfs over a directory of the host");
}

static int remount(int argc, char **argv) {
    if (mount(NULL, argument(argc, argv, 0), NULL, MS_REMOUNT | MS_BIND, NULL)) return refused("mount");
    return scribble_at(AT_FDCWD, argument(argc, argv, 1)) ? refused("write") : reached("remounted");
}

static int uncover(int argc, char **argv) {
    const char *point = argument(argc, argv, 0);
    if (umount2(point, MNT_DETACH)) {
        const char *others[] = {"/workspace", "/tmp", "/proc", "/dev/shm", "/usr", "/etc", "/"};
        int error = errno;
        for (size_t at = 0; error == ENOENT && at < sizeof others / sizeof *others; at++)
            if (umount2(others[at], MNT_DETACH) == 0) return reached(others[at]);
        return refused("umount2");
    }
    return show_at(AT_FDCWD, argument(argc, argv, 1)) ? refused("open") : reached("what was covered");
}

static int pivot(int argc, char **argv) {
    (void)argc, (void)argv;
    if (unshare(CLONE_NEWNS)) return refused("unshare");
    mkdir("root", 0755);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) return refused("mount");
    if (mount("none", "root", "tmpfs", 0, NULL)) return refused("mount");
    mkdir("root/old", 0755);
    if (syscall(SYS_pivot_root, "root", "root/old")) return refused("pivot_root");
    return reached("another root");
}

/* The classical way out of a chroot, which needs another chroot. */
static int chroot_out(int argc, char **argv) {
    const char *victim = argument(argc, argv, 0);
    mkdir("cell", 0755);
    if (chroot("cell")) return refused("chroot");
    for (int depth = 0; depth < 64; depth++)
        if (chdir("..")) break;
    if (chroot(".")) return refused("chroot");
    return scribble_at(AT_FDCWD, victim) ? refused("open") : reached("chroot");
}

static int make_device(int argc, char **argv) {
    mode_t kind = *argument(argc, argv, 0) == 'b' ? S_IFBLK : S_IFCHR;
    int major = atoi(argument(argc, argv, 1)), minor = atoi(argument(argc, argv, 2));
    char text[4096];
    if (mknod("device", kind | 0600, makedev(major, minor))) return refused("mknod");
    int fd = open("device", O_RDONLY | O_NONBLOCK);
    if (fd < 0) return refused("open");
    return read(fd, text, sizeof text) > 0 ? reached("bytes of the device") : refused("read");
}

static int read_device(int argc, char **argv) {
    char sector[512];
    int fd = open(argument(argc, argv, 0), O_RDONLY | O_NONBLOCK);
    if (fd < 0) return refused("open");
    return read(fd, sector, sizeof sector) > 0 ? reached("bytes of the device") : refused("read");
}

/* Writes what is there already: it changes nothing, and shows that it could. */
static int rewrite(int argc, char **argv) {
    const char *path = argument(argc, argv, 0);
    char text[4096];
    int fd = open(path, O_RDONLY);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (fd >= 0) close(fd);
    if (got < 0) return refused("open to read");
    /* Of a list of choices the chosen one is written. */
    char *from = memchr(text, '[', got), *to = from ? memchr(from, ']', text + got - from) : NULL;
    char *start = to ? from + 1 : text;
    size_t length = to ? (size_t)(to - from - 1) : (size_t)got;
    fd = open(path, O_WRONLY);
    if (fd < 0) return refused("open to write");
    if (length == 0) start = "\n", length = 1;
    return write(fd, start, length) == (ssize_t)length ? reached("written") : refused("write");
}

static int put_text(int argc, char **argv) {
    const char *text = argument(argc, argv, 1);
    int fd = open(argument(argc, argv, 0), O_WRONLY | O_CLOEXEC);
    if (fd < 0) return refused("open");
    return write(fd, text, strlen(text)) > 0 ? reached("written") : refused("write");
}

static int make_directory(int argc, char **argv) {
    return mkdir(argument(argc, argv, 0), 0755) ? refused("mkdir") : reached("made");
}

static int capabilities_effective(void) {
    FILE *status = fopen("/proc/self/status", "r");
    unsigned long long held = 0;
    for (char line[256]; status && fgets(line, sizeof line, status);)
        if (sscanf(line, "CapEff: %llx", &held) == 1) break;
    if (status) fclose(status);
    return held != 0;
}

/* Meant to be a set-user-id or capable copy of this program. */
static int privileged(int argc, char **argv) {
    (void)argc, (void)argv;
    if (geteuid() != getuid()) return reached("another user's rights");
    if (capabilities_effective()) return reached("capabilities");
    errno = EPERM;
    return refused("gaining rights by exec");
}

static int make_set_user_id(int argc, char **argv) {
    (void)argc, (void)argv;
    struct {
        unsigned long long flags, mode, resolve;
    } how = {O_CREAT | O_WRONLY, 04755, 0};
    umask(0);
    int done = open("by-open", O_CREAT | O_WRONLY, 04755) >= 0;
    done |= syscall(SYS_openat2, AT_FDCWD, "by-openat2", &how, sizeof how) >= 0;
    done |= mknod("by-mknod", S_IFREG | 04755, 0) == 0;
    done |= mkdir("by-mkdir", 02755) == 0 && chmod("by-mkdir", 02755) == 0;
    return done ? reached("a set-user-id file") : refused("open, openat2, mknod, mkdir");
}

static int attribute(int argc, char **argv) {
    if (setxattr(argument(argc, argv, 0), "user.escaped", "1", 1, 0)) return refused("setxattr");
    return reached("an attribute");
}

static int change_mode(int argc, char **argv) {
    return chmod(argument(argc, argv, 0), 0666) ? refused("chmod") : reached("a mode");
}

static int rename_path(int argc, char **argv) {
    if (rename(argument(argc, argv, 0), argument(argc, argv, 1))) return refused("rename");
    return reached("renamed");
}

/* A handle, known by whatever means, opens a file that has no name here. */
static int open_handle(int argc, char **argv) {
    struct {
        struct file_handle handle;
        unsigned char bytes[128];
    } known = {0};
    const char *hex = argument(argc, argv, 1);
    known.handle.handle_type = atoi(argument(argc, argv, 0));
    known.handle.handle_bytes = strlen(hex) / 2;
    for (size_t at = 0; at < known.handle.handle_bytes; at++) {
        unsigned byte = 0;
        sscanf(hex + 2 * at, "%2x", &byte);
        known.handle.f_handle[at] = byte;
    }
    int root = open(".", O_RDONLY | O_DIRECTORY);
    int fd = open_by_handle_at(root, &known.handle, O_RDONLY);
    if (fd < 0) return refused("open_by_handle_at");
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return show_at(AT_FDCWD, path) ? refused("read") : reached("a file by its handle");
}

static int give_handle(int argc, char **argv) {
    struct {
        struct file_handle handle;
        unsigned char bytes[128];
    } found = {.handle.handle_bytes = 128};
    int mount_id;
    if (name_to_handle_at(AT_FDCWD, argument(argc, argv, 0), &found.handle, &mount_id, 0))
        return refused("name_to_handle_at");
    printf("%d ", found.handle.handle_type);
    for (unsigned at = 0; at < found.handle.handle_bytes; at++) printf("%02x", found.handle.f_handle[at]);
    putchar('\n');
    return 0;
}

const struct probe files[] = {
    {"swap-race", swap_race}, {"hard-link", hard_link}, {"write", write_file}, {"read", read_file},
    {"through-processes", through_processes}, {"descriptors", descriptors}, {"bind-mount", bind_mount},
    {"overlay-mount", overlay_mount}, {"mount-over", mount_over}, {"remount", remount}, {"uncover", uncover},
    {"pivot", pivot}, {"chroot-out", chroot_out}, {"make-device", make_device}, {"read-device", read_device},
    {"rewrite", rewrite}, {"put-text", put_text}, {"make-directory", make_directory},
    {"privileged", privileged}, {"make-set-user-id", make_set_user_id}, {"attribute", attribute}, {"change-mode", change_mode},
    {"rename", rename_path}, {"open-handle", open_handle}, {"give-handle", give_handle}, {NULL, NULL},
};
