/* Doors into the kernel that no command of an agent needs. Each call is made so that it does nothing, or
 * nothing that lasts, where it is let through. */
#include "probe.h"
#include <linux/bpf.h>
#include <linux/landlock.h>
#include <linux/perf_event.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/fanotify.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/uio.h>
#ifdef __x86_64__
#include <asm/ldt.h>
#include <sys/io.h>
#endif

#define CALL(function, title, ...) \
    static int function(int argc, char **argv) {                                \
        (void)argc, (void)argv;                                                 \
        return syscall(__VA_ARGS__) < 0 ? refused(title) : reached(title);      \
    }
/* Let through where the kernel complains of the arguments, which it looks at after the rights. */
#define CALL_TO(function, title, complaint, ...)                                \
    static int function(int argc, char **argv) {                                \
        (void)argc, (void)argv;                                                 \
        return syscall(__VA_ARGS__) < 0 && errno != (complaint) ? refused(title) : reached(title); \
    }

CALL(new_user, "unshare user", SYS_unshare, CLONE_NEWUSER)
CALL(new_mounts, "unshare mount", SYS_unshare, CLONE_NEWUSER | CLONE_NEWNS)
CALL(new_time, "unshare time", SYS_unshare, CLONE_NEWUSER | 0x80)
CALL(keys, "add_key", SYS_add_key, "user", "regie-escape", "x", 1, -4)
CALL(key_ring, "keyctl", SYS_keyctl, 0, -3, 1)
CALL(fault_handler, "userfaultfd", SYS_userfaultfd, O_CLOEXEC)
CALL(watch, "fanotify_init", SYS_fanotify_init, FAN_CLASS_CONTENT, O_RDONLY)
CALL(log_of_kernel, "syslog", SYS_syslog, 10, NULL, 0)
CALL(no_randomness, "personality", SYS_personality, ADDR_NO_RANDOMIZE | READ_IMPLIES_EXEC)
CALL(set_time, "settimeofday", SYS_settimeofday, NULL, NULL)
CALL(name, "sethostname", SYS_sethostname, "escaped", 7)
CALL(open_file_system, "fsopen", SYS_fsopen, "tmpfs", 0)
CALL(copy_tree, "open_tree", SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)
CALL_TO(move_tree, "move_mount", ELOOP, SYS_move_mount, AT_FDCWD, "/", AT_FDCWD, "/", 0)
CALL_TO(load_kernel, "kexec_load", EINVAL, SYS_kexec_load, 0, 17, NULL, 0x8000)
CALL_TO(load_module, "init_module", ENOEXEC, SYS_init_module, "", 0, "")
CALL_TO(swap_on, "swapon", ENOENT, SYS_swapon, "/regie-escape-none", 0)
CALL_TO(restart, "reboot", EINVAL, SYS_reboot, 0xfee1dead, 672274793, 0x7e57, NULL)
CALL_TO(account, "acct", ENOENT, SYS_acct, "/regie-escape-none")
CALL_TO(quota, "quotactl", ENOENT, SYS_quotactl, 0x800002 << 8, "/regie-escape-none", 0, NULL)

static int clone_user(int argc, char **argv) {
    (void)argc, (void)argv;
    struct {
        unsigned long long flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
    } args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    long child = syscall(SYS_clone3, &args, sizeof args);
    if (child < 0) return refused("clone3");
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
    return reached("a user namespace by clone3");
}

static int set_clock_rate(int argc, char **argv) {
    (void)argc, (void)argv;
    struct timex now = {.modes = 0};
    adjtimex(&now);
    now.modes = ADJ_FREQUENCY; /* to what it is */
    return adjtimex(&now) < 0 ? refused("adjtimex") : reached("the clock's rate");
}

static int ring(int argc, char **argv) {
    (void)argc, (void)argv;
    unsigned char parameters[120] = {0};
    return syscall(SYS_io_uring_setup, 1, parameters) < 0 ? refused("io_uring_setup") : reached("io_uring");
}

static int bpf_map(int argc, char **argv) {
    (void)argc, (void)argv;
    union bpf_attr attr = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
    return syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof attr) < 0 ? refused("bpf") : reached("a map");
}

static int counters(int argc, char **argv) {
    (void)argc, (void)argv;
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .config = 0,
                                   .exclude_kernel = 1, .exclude_hv = 1};
    return syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0) < 0 ? refused("perf_event_open") : reached("counters");
}

static int gift(int argc, char **argv) {
    (void)argc, (void)argv;
    int ends[2];
    static char page[4096] __attribute__((aligned(4096)));
    struct iovec part = {page, sizeof page};
    if (pipe(ends)) return refused("pipe");
    return vmsplice(ends[1], &part, 1, SPLICE_F_GIFT) < 0 ? refused("vmsplice") : reached("pages");
}

/* Rules that allow everything: they only ever add up, so they must not open anything. */
static int more_landlock(int argc, char **argv) {
    struct landlock_ruleset_attr attr = {.handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE};
    int rules = syscall(SYS_landlock_create_ruleset, &attr, sizeof attr.handled_access_fs, 0);
    if (rules < 0) return refused("landlock_create_ruleset");
    struct landlock_path_beneath_attr all = {.allowed_access = LANDLOCK_ACCESS_FS_WRITE_FILE,
                                             .parent_fd = open("/", O_PATH | O_CLOEXEC)};
    if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &all, 0)) return refused("landlock_add_rule");
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_landlock_restrict_self, rules, 0)) return refused("landlock_restrict_self");
    return scribble_at(AT_FDCWD, argument(argc, argv, 0)) ? refused("open after it") : reached("written");
}

static int more_seccomp(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, allow};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return refused("seccomp");
    return syscall(SYS_userfaultfd, O_CLOEXEC) < 0 ? refused("userfaultfd after it") : reached("userfaultfd");
}

#ifdef __x86_64__
CALL(second_table, "getpid by x32", 0x40000000L + SYS_getpid)
CALL(ports, "iopl", SYS_iopl, 3)
CALL(port, "ioperm", SYS_ioperm, 0x80, 1, 1)

static int old_table(int argc, char **argv) {
    (void)argc, (void)argv;
    long number = 20; /* getpid of i386 */
    __asm__ volatile("int $0x80" : "+a"(number) : : "memory", "r8", "r9", "r10", "r11");
    errno = -number;
    return number < 0 ? refused("int 0x80") : reached("a call of another architecture");
}

static int segment(int argc, char **argv) {
    (void)argc, (void)argv;
    struct user_desc entry = {.entry_number = 0, .limit = 1, .seg_32bit = 1, .useable = 1};
    return syscall(SYS_modify_ldt, 1, &entry, sizeof entry) ? refused("modify_ldt") : reached("a segment");
}
#endif

const struct probe kernel[] = {
    {"new-user", new_user}, {"new-mounts", new_mounts}, {"new-time", new_time}, {"clone-user", clone_user},
    {"keys", keys}, {"key-ring", key_ring}, {"fault-handler", fault_handler}, {"watch", watch},
    {"log-of-kernel", log_of_kernel}, {"no-randomness", no_randomness}, {"set-time", set_time},
    {"set-clock-rate", set_clock_rate}, {"name", name}, {"open-file-system", open_file_system},
    {"copy-tree", copy_tree}, {"move-tree", move_tree}, {"load-kernel", load_kernel},
    {"load-module", load_module}, {"swap-on", swap_on}, {"restart", restart}, {"account", account},
    {"quota", quota}, {"ring", ring}, {"bpf-map", bpf_map}, {"counters", counters}, {"gift", gift},
    {"more-landlock", more_landlock}, {"more-seccomp", more_seccomp},
#ifdef __x86_64__
    {"second-table", second_table}, {"ports", ports}, {"port", port}, {"old-table", old_table},
    {"segment", segment},
#endif
    {NULL, NULL},
};
