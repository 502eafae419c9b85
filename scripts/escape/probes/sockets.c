/* Ways out by sockets and by what runs of one mission could share. */
#include "probe.h"
#include <arpa/inet.h>
#include <linux/netlink.h>
#include <mqueue.h>
#include <net/if.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>

static struct sockaddr_in address(int argc, char **argv) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argument(argc, argv, 1)))};
    inet_pton(AF_INET, argument(argc, argv, 0), &to.sin_addr);
    return to;
}

static int tell(int fd) {
    struct pollfd writable = {fd, POLLOUT, 0};
    poll(&writable, 1, 2000);
    if (write(fd, "escaped\n", 8) != 8) return refused("write");
    return reached("a peer");
}

static int tcp(int argc, char **argv) {
    struct sockaddr_in to = address(argc, argv);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0) return refused("socket");
    if (connect(fd, (void *)&to, sizeof to)) return refused("connect");
    return tell(fd);
}

static int tcp6(int argc, char **argv) {
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(atoi(argument(argc, argv, 0))),
                              .sin6_addr = in6addr_loopback};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    if (fd < 0) return refused("socket");
    if (connect(fd, (void *)&to, sizeof to)) return refused("connect");
    return tell(fd);
}

static int udp(int argc, char **argv) {
    struct sockaddr_in to = address(argc, argv);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0) return refused("socket");
    if (sendto(fd, "escaped\n", 8, 0, (void *)&to, sizeof to) != 8) return refused("sendto");
    return reached("sent");
}

static int ping(int argc, char **argv) {
    struct sockaddr_in to = {.sin_family = AF_INET};
    inet_pton(AF_INET, argument(argc, argv, 0), &to.sin_addr);
    int fd = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
    if (fd < 0) fd = socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
    if (fd < 0) return refused("socket");
    struct icmphdr echo = {.type = ICMP_ECHO};
    echo.checksum = ~htons(ICMP_ECHO << 8);
    if (sendto(fd, &echo, sizeof echo, 0, (void *)&to, sizeof to) < 0) return refused("sendto");
    struct pollfd readable = {fd, POLLIN, 0};
    errno = ETIMEDOUT;
    return poll(&readable, 1, 2000) == 1 ? reached("an echo") : refused("echo");
}

static int unix_address(struct sockaddr_un *to, const char *name, int is_abstract) {
    to->sun_family = AF_UNIX;
    snprintf(to->sun_path + is_abstract, sizeof to->sun_path - 1, "%s", name);
    return offsetof(struct sockaddr_un, sun_path) + is_abstract + strlen(name) + !is_abstract;
}

static int local(int argc, char **argv, int is_abstract, int is_serving) {
    struct sockaddr_un to = {0};
    int length = unix_address(&to, argument(argc, argv, 0), is_abstract);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0) return refused("socket");
    if (is_serving) {
        if (bind(fd, (void *)&to, length) || listen(fd, 8)) return refused("bind");
        puts("ready");
        for (;;) {
            int peer = accept(fd, NULL, NULL);
            if (peer >= 0 && write(peer, argument(argc, argv, 1), strlen(argv[1])) > 0) close(peer);
        }
    }
    if (connect(fd, (void *)&to, length)) return refused("connect");
    struct pollfd readable = {fd, POLLIN, 0};
    char text[256] = {0}, space[CMSG_SPACE(sizeof(int))];
    struct iovec part = {text, sizeof text - 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    if (poll(&readable, 1, 500) == 1 && recvmsg(fd, &message, 0) > 0) {
        puts(text);
        /* A descriptor that the service hands out is as good as the file. */
        struct cmsghdr *extra = CMSG_FIRSTHDR(&message);
        if (extra && extra->cmsg_type == SCM_RIGHTS && pread(*(int *)CMSG_DATA(extra), text, sizeof text - 1, 0) > 0)
            puts(text);
    }
    return tell(fd);
}
static int path_socket(int argc, char **argv) { return local(argc, argv, 0, 0); }
static int abstract_socket(int argc, char **argv) { return local(argc, argv, 1, 0); }
static int serve_abstract(int argc, char **argv) { return local(argc, argv, 1, 1); }

/* Says what it has to whoever connects to its port, of all addresses. */
static int serve(int argc, char **argv) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(atoi(argument(argc, argv, 0)))};
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    if (fd < 0) return refused("socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (void *)&here, sizeof here) || listen(fd, 8)) return refused("bind");
    puts("ready");
    for (;;) {
        int peer = accept(fd, NULL, NULL);
        if (peer >= 0 && write(peer, argument(argc, argv, 1), strlen(argv[1])) > 0) close(peer);
    }
}

static int hear(int argc, char **argv) {
    struct sockaddr_in to = address(argc, argv);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char text[256] = {0};
    if (fd < 0) return refused("socket");
    if (connect(fd, (void *)&to, sizeof to)) return refused("connect");
    if (read(fd, text, sizeof text - 1) <= 0) return refused("read");
    puts(text);
    return reached("another's service");
}

static int open_socket(int argc, char **argv) {
    int fd = socket(atoi(argument(argc, argv, 0)), atoi(argument(argc, argv, 1)), atoi(argument(argc, argv, 2)));
    return fd < 0 ? refused("socket") : reached("a socket");
}

/* Gives the loopback of the host one more address. */
static int configure(int argc, char **argv) {
    struct ifreq request = {0};
    struct sockaddr_in one = {.sin_family = AF_INET};
    inet_pton(AF_INET, argument(argc, argv, 0), &one.sin_addr);
    strcpy(request.ifr_name, "lo:9");
    memcpy(&request.ifr_addr, &one, sizeof one);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    return ioctl(fd, SIOCSIFADDR, &request) ? refused("ioctl SIOCSIFADDR") : reached("an address");
}

static int hold_shared(int argc, char **argv) {
    int id = shmget(atoi(argument(argc, argv, 0)), 4096, IPC_CREAT | 0666);
    if (id < 0) return refused("shmget");
    strcpy(shmat(id, NULL, 0), argument(argc, argv, 1));
    puts("ready");
    for (;;) pause();
}
static int read_shared(int argc, char **argv) {
    int id = shmget(atoi(argument(argc, argv, 0)), 4096, 0);
    if (id < 0) return refused("shmget");
    puts(shmat(id, NULL, SHM_RDONLY));
    return reached("another's memory");
}

static int hold_queue(int argc, char **argv) {
    mqd_t queue = mq_open(argument(argc, argv, 0), O_CREAT | O_RDWR, 0666, NULL);
    if (queue < 0) return refused("mq_open");
    mq_send(queue, argument(argc, argv, 1), strlen(argv[1]) + 1, 0);
    puts("ready");
    for (;;) pause();
}
static int read_queue(int argc, char **argv) {
    char text[1 << 16];
    mqd_t queue = mq_open(argument(argc, argv, 0), O_RDONLY | O_NONBLOCK);
    if (queue < 0) return refused("mq_open");
    if (mq_receive(queue, text, sizeof text, NULL) < 0) return refused("mq_receive");
    puts(text);
    return reached("another's message");
}

static int hold_file(int argc, char **argv) {
    FILE *file = fopen(argument(argc, argv, 0), "w");
    if (!file) return refused("open");
    fputs(argument(argc, argv, 1), file);
    fclose(file);
    puts("ready");
    for (;;) pause();
}

const struct probe sockets[] = {
    {"tcp", tcp}, {"tcp6", tcp6}, {"udp", udp}, {"ping", ping}, {"path-socket", path_socket},
    {"abstract-socket", abstract_socket}, {"serve-abstract", serve_abstract}, {"serve", serve}, {"hear", hear},
    {"open-socket", open_socket}, {"configure", configure}, {"hold-shared", hold_shared},
    {"read-shared", read_shared}, {"hold-queue", hold_queue}, {"read-queue", read_queue},
    {"hold-file", hold_file}, {NULL, NULL},
};
