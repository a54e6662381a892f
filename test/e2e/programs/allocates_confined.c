/* SPDX-License-Identifier: Apache-2.0
 * Allocates after it has forbidden itself nearly all system calls, from stack pointers at every distance from a page's
 * end. Ends with 7. */
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static char *kept[100];

int main(void)
{
    long sum = 0;
    char *volatile first = malloc(100000); /* so that there is enough of the heap */
    free(first);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
        return 1;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 100; i++) {
            char room[64 + i * 40];
            room[0] = (char)(i + 1);
            kept[i] = malloc(100 + (size_t)i);
            memset(kept[i], room[0], 100);
            sum += kept[i][5];
        }
        for (int i = 0; i < 100; i++)
            free(kept[i]);
    }
    syscall(SYS_exit, sum == 101000 ? 7 : 2);
}
