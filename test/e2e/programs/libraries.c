/* SPDX-License-Identifier: Apache-2.0
 *
 * libraries FOLDER: a program and its libraries, found in every way: needed by $ORIGIN, opened by name through the run
 * path, opened by absolute path, opened without an environment. Built several times: -DLIBRARY=NAME makes the library
 * whose only function says who it is.
 */
#define _GNU_SOURCE
#include <stdio.h>

#ifdef LIBRARY
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define JOIN_(x, y) x##y
#define JOIN(x, y) JOIN_(x, y)
int JOIN(sum_, LIBRARY)(int n)
{
    int s = 0;
    for (int i = 0; i < n; i++)
        s += i ^ n;
    printf("%s %d\n", TEXT(LIBRARY), s);
    return s;
}
#else
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

int sum_needed(int n);

static void open_one(const char *path, const char *name)
{
    void *at = dlopen(path, RTLD_NOW);
    int (*sum)(int) = at ? (int (*)(int))dlsym(at, name) : NULL;
    Dl_info info;
    if (!sum || !dladdr((void *)sum, &info)) {
        printf("%s: %s\n", path, dlerror());
        return;
    }
    sum(1000);
    printf("%s in %s\n", name, info.dli_fname);
    dlclose(at);
}

int main(int argc, char **argv)
{
    char exe[4096] = "", path[4200];
    sum_needed(1000);
    open_one("libnamed.so", "sum_named");
    snprintf(path, sizeof path, "%s/libabsolute.so", argc > 1 ? argv[1] : "");
    open_one(path, "sum_absolute");
    clearenv();
    open_one(path, "sum_absolute"); /* its constructors get no environment */
    if (readlink("/proc/self/exe", exe, sizeof exe - 1) < 0)
        perror("/proc/self/exe");
    printf("exe %s\nargv[0] %s\n", exe, argv[0]);
    return 0;
}
#endif
