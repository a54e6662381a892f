/* SPDX-License-Identifier: Apache-2.0
 *
 * ends: ends with handlers and destructors, as do a child that it forks and one that leaves by _exit; fills memory
 * before, so that taking it down takes the kernel a while. Says what runs, by whom, in which order.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *who = "parent";

__attribute__((destructor)) static void destroyed(void) { printf("%s: destructor\n", who); }
static void handler(void) { printf("%s: handler\n", who); }

static void child(const char *name, int is_quick)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        who = name;
        if (is_quick)
            _exit(4);
        exit(5);
    }
    int status;
    waitpid(pid, &status, 0);
    printf("%s: %d\n", name, WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
    (void)argv;
    size_t bytes = 200u << 20;
    char *memory = malloc(bytes);
    if (!memory)
        return 1;
    memset(memory, 7, bytes);
    long sum = 0;
    for (int round = 0; round < 20; round++)
        for (size_t i = 0; i < bytes; i += 64)
            sum += memory[i];
    atexit(handler);
    if (argc > 1) {
        child("child", 0);
        child("quick child", 1);
    }
    printf("%ld\n", sum);
    return 3;
}
