/* SPDX-License-Identifier: Apache-2.0
 *
 * exits HOW: does 1000 turns, says so, and ends in the way asked for. Counts must survive every one of them.
 */
#include "here.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void at_exit(void) { HERE(at_exit); }

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "return";
    atexit(at_exit);
    for (int i = 0; i < 1000; i++)
        HERE(body);
    expect("body", 1000);
    expect("at_exit", !strcmp(how, "return") || !strcmp(how, "exit") || !strcmp(how, "close"));
    fflush(stdout);
    fprintf(stderr, "about to %s\n", how);
    if (!strcmp(how, "exit"))
        exit(3);
    if (!strcmp(how, "_exit"))
        _exit(4);
    if (!strcmp(how, "abort"))
        abort();
    if (!strcmp(how, "kill"))
        kill(getpid(), SIGKILL);
    if (!strcmp(how, "term"))
        raise(SIGTERM);
    if (!strcmp(how, "segv"))
        *(volatile int *)(long)(argc - 2) = 1;
    if (!strcmp(how, "trap"))
        __builtin_trap();
    if (!strcmp(how, "exec"))
        execl("/bin/sh", "another name", "-c", "echo $0; exit 6", (char *)NULL);
    if (!strcmp(how, "close")) {
        for (int fd = 0; fd < 1024; fd++)
            close(fd);
        return 8;
    }
    return 5;
}
