/* SPDX-License-Identifier: Apache-2.0
 * kernel FILE: system calls whose reach is known, into variables of their own, and little else. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/random.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#define KEPT __attribute__((aligned(4096)))
char filled[1 << 20] KEPT, half[1 << 16] KEPT, written[1 << 15] KEPT, first[8192] KEPT, second[8192] KEPT,
    sent[4096] KEPT, got[4096] KEPT, dice[4096] KEPT;
struct utsname name KEPT;
struct stat about KEPT;
unsigned long polled[16] KEPT = {2}; /* standard output */
int waiting[1024] KEPT, entropy[1024] KEPT;

/* The link's text takes the place of its name, up to a page that is not there: 1, if that went well. */
static int read_over_itself(void)
{
    enum { PAGE = 4096, BYTES = 32 };
    char text[BYTES + 1], *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *place = pages + PAGE - BYTES;
    memset(text, 'x', BYTES);
    text[BYTES] = 0;
    strcpy(place, "kernel.link");
    unlink(place);
    return munmap(pages + PAGE, PAGE) == 0 && symlink(text, place) == 0 && readlink(place, place, BYTES) == BYTES;
}

int main(int argc, char **argv)
{
    int pair[2], in = open(argv[argc - 1], O_RDONLY), null = open("/dev/null", O_WRONLY);
    struct iovec v[2] = {{first, 5000}, {second, 8192}}, out = {sent, 4096}, to = {got, 4096};
    struct msghdr send = {.msg_iov = &out, .msg_iovlen = 1}, take = {.msg_iov = &to, .msg_iovlen = 1};
    long n = read(in, filled, sizeof filled);
    n += pread(in, half, sizeof half, (1 << 20) - 1000); /* there are 1000 */
    n += write(null, written, sizeof written);
    n += lseek(in, (1 << 20) - 6000, SEEK_SET) ? readv(in, v, 2) : 0; /* 5000 and 1000 */
    n += read(in, half, sizeof half);                                 /* nothing is left */
    n += read(-1, half, sizeof half);
    n += uname(&name) + fstat(in, &about) + (syscall(SYS_getrandom, dice, 640, 0) == 640);
    n += socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 ? sendmsg(pair[0], &send, 0) + recvmsg(pair[1], &take, 0) : 0;
    n += select(2, NULL, (fd_set *)polled, NULL, NULL);
    n += ioctl(pair[1], FIONREAD, waiting) + ioctl(null, RNDGETENTCNT, filled); /* the second is refused */
    n += ioctl(open("/dev/urandom", O_RDONLY), RNDGETENTCNT, entropy);
    n += read_over_itself();
    printf("%ld\n", n);
    return 0;
}
