/* Using the machine up. Each bomb has a fuse: it stops by itself at the number that it is given, which is
 * beyond every bound that a jail sets and harmless to a machine. */
#include "probe.h"
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

static void sleep_on(void) {
    struct timespec while_counted = {3, 0};
    nanosleep(&while_counted, NULL);
}

static int fork_bomb(int argc, char **argv) {
    long most = atol(argument(argc, argv, 0)), made = 0;
    prctl(PR_SET_NAME, "regie-bomb");
    for (; made < most; made++) {
        pid_t child = fork();
        if (child < 0) break;
        if (child == 0) {
            sleep_on();
            _exit(0);
        }
    }
    int error = errno;
    sleep_on();
    printf("%ld processes\n", made);
    errno = error;
    return made < most ? refused("fork") : reached("all of them");
}

static int fill(long mebibytes) {
    size_t bytes = (size_t)mebibytes << 20;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return -1;
    for (size_t at = 0; at < bytes; at += 4096) memory[at] = 1;
    return 0;
}

static int memory_bomb(int argc, char **argv) {
    prctl(PR_SET_NAME, "regie-bomb");
    if (fill(atol(argument(argc, argv, 0)))) return refused("mmap");
    sleep_on();
    return reached("all of it");
}

static int memory_by_many(int argc, char **argv) {
    int many = atoi(argument(argc, argv, 0)), failed = 0, status;
    prctl(PR_SET_NAME, "regie-bomb");
    for (int child = 0; child < many; child++)
        if (fork() == 0) {
            int full = fill(atol(argument(argc, argv, 1)));
            sleep_on();
            _exit(full != 0);
        }
    while (wait(&status) > 0) failed += status != 0;
    errno = ENOMEM;
    return failed ? refused("memory of all processes together") : reached("all of it");
}

static int descriptor_bomb(int argc, char **argv) {
    long most = atol(argument(argc, argv, 0)), made = 0;
    while (made < most && dup(0) >= 0) made++;
    return made < most ? refused("dup") : reached("all of them");
}

static int sparse(int argc, char **argv) {
    int fd = open("sparse", O_WRONLY | O_CREAT, 0644);
    signal(SIGXFSZ, SIG_IGN);
    return ftruncate(fd, atol(argument(argc, argv, 0)) << 30) ? refused("ftruncate") : reached("a huge file");
}

static int disk_bomb(int argc, char **argv) {
    static char block[1 << 20];
    long most = atol(argument(argc, argv, 0));
    for (long made = 0; made < most; made++) {
        char name[32];
        snprintf(name, sizeof name, "fill-%ld", made / 64);
        int fd = open(name, O_WRONLY | O_CREAT | O_APPEND, 0644);
        if (fd < 0) return refused("open");
        if (write(fd, block, sizeof block) != sizeof block) return refused("write");
        close(fd);
    }
    return reached("all of it");
}

static int file_bomb(int argc, char **argv) {
    long most = atol(argument(argc, argv, 0));
    mkdir("many", 0755);
    for (long made = 0; made < most; made++) {
        char name[32];
        snprintf(name, sizeof name, "many/%ld", made);
        int fd = open(name, O_WRONLY | O_CREAT, 0644);
        if (fd < 0) return refused("open");
        close(fd);
    }
    return reached("all of them");
}

static int flood(int argc, char **argv) {
    static char block[1 << 20];
    memset(block, 'x', sizeof block);
    for (long left = atol(argument(argc, argv, 0)); left > 0; left--)
        if (write(1, block, sizeof block) < 0) return refused("write");
    return 0;
}

static int spin(int argc, char **argv) {
    (void)argc, (void)argv;
    prctl(PR_SET_NAME, "regie-spin");
    alarm(60);
    for (;;) continue;
}

const struct probe bombs[] = {
    {"fork-bomb", fork_bomb}, {"memory-bomb", memory_bomb}, {"memory-by-many", memory_by_many},
    {"descriptor-bomb", descriptor_bomb}, {"sparse", sparse}, {"disk-bomb", disk_bomb},
    {"file-bomb", file_bomb}, {"flood", flood}, {"spin", spin}, {NULL, NULL},
};
