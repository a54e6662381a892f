# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# For cases of links of many forms: sources whose functions are called as often in each, and `form`.
cat >main.c <<'C'
#include <stdio.h>
#include <stdlib.h>
int pick(int), by_ifunc(int), tls_sum(int), begun(void), odd(int), even(int), wrapped(int);
int main(int argc, char **argv)
{
    int sum = 0;
    (void)argv;
    for (int i = 0; i < 1000; i++)
        sum += pick(i) + by_ifunc(i) + tls_sum(i) + (i & 1 ? odd(i) : even(i)) + wrapped(i);
    printf("%d %d\n", sum, begun());
    if (argc > 100)
        abort();
    return 3;
}
C
cat >pick.c <<'C'
int twice(int x), unused(int x), pick(int x);
int pick(int x)
{
    switch (x % 9) {
    case 0: return twice(x);
    case 1: return x - 1;
    case 2: return x * 5;
    case 3: return x / 3;
    case 4: return x ^ 77;
    case 5: return twice(x) - 5;
    case 6: return x & 1023;
    }
    return 1;
}
int unused(int x) { return x / 3; }
C
cat >twice.c <<'C'
int twice(int x), odd(int x), even(int x), wrapped(int x), __wrap_wrapped(int x), __real_wrapped(int x);
int twice(int x) { return 2 * x; }
/* alike: --icf=all makes one of them */
int odd(int x) { return x % 7 == 0 ? x * 3 : x - 5; }
int even(int x) { return x % 7 == 0 ? x * 3 : x - 5; }
int wrapped(int x) { return x % 5 ? 1 : 2; }
C
cat >wrap.c <<'C'
int __wrap_wrapped(int x), __real_wrapped(int x);
int __wrap_wrapped(int x) { return __real_wrapped(x) + 10; }
C
cat >ifunc.c <<'C'
#include <stdlib.h>
int by_ifunc(int x);
__attribute__((noinline)) static int one_way(int x) { return x % 3 ? x : 1; }
__attribute__((noinline)) static int other_way(int x) { return x + 1; }
static int (*choose(void))(int) { return sizeof(long) == 8 ? one_way : other_way; }
int by_ifunc(int x) __attribute__((ifunc("choose")));
C
cat >tls.c <<'C'
#define MODEL(m) __attribute__((tls_model(m)))
__thread int outer MODEL("global-dynamic") = 3;
static __thread int here MODEL("local-dynamic") = 4;
static __thread int here_too MODEL("local-dynamic");
static __thread long early MODEL("initial-exec") = 5;
#ifdef SHARED
static __thread short late MODEL("initial-exec") = 6;
#else
static __thread short late MODEL("local-exec") = 6;
#endif
int tls_sum(int x);
int tls_sum(int x)
{
    outer += x & 1;
    here++;
    here_too = here - here_too;
    if (early < 100)
        early += 3;
    late ^= 5;
    return outer + here + here_too + (int)early + late;
}
C
cat >init.c <<'C'
#include <stdio.h>
static int count;
int begun(void);
__attribute__((constructor(200))) static void first(void) { count += 1; }
__attribute__((constructor)) static void second(void) { count *= 10; }
static void third(int argc, char **argv, char **env) { (void)argc; (void)argv; (void)env; count += 7; }
__attribute__((section(".init_array.60000"), used)) static void (*const at_begin)(int, char **, char **) = third;
__attribute__((destructor)) static void at_end(void) { printf("end %d\n", count); }
int begun(void) { return count; }
C
cat >shapes.hh <<'C'
#include <stdexcept>
#include <string>
#include <vector>
struct shape {
    virtual ~shape() {}
    virtual int area(int n) const { return n; }
};
template <class T> __attribute__((noinline)) T largest(const std::vector<T> &v)
{
    T best = v.front();
    for (const T &x : v)
        if (best < x)
            best = x;
    return best;
}
__attribute__((noinline)) inline int checked(int n)
{
    static int calls = 0;
    if (++calls % 3 == 0)
        throw std::range_error("three of " + std::to_string(n));
    return n;
}
int other(int n);
C
cat >one.cc <<'C'
#include "shapes.hh"
#include <iostream>
struct square : shape {
    int area(int n) const override { return n * n; }
};
int main()
{
    int sum = 0;
    square s;
    const shape &b = s;
    for (int i = 0; i < 50; i++)
        try {
            sum += checked(i) + other(i) + b.area(i) + largest(std::vector<int>{i, 7, 3});
        } catch (const std::range_error &e) {
            sum += static_cast<int>(std::string(e.what()).size());
        }
    std::cout << sum << std::endl;
    return 5;
}
C
cat >two.cc <<'C'
#include "shapes.hh"
int other(int n)
{
    shape s;
    int sum = s.area(n) + largest(std::vector<int>{1, n});
    try {
        sum += checked(n);
    } catch (const std::exception &) {
        sum -= 100;
    }
    return sum;
}
C
export parts="pick.o twice.o ifunc.o tls.o init.o"
export all="main.o $parts"
cat >build.sh <<'C'
set -e
CC=${CC:-gcc} CXX=${CXX:-g++}
c() { # FLAGS...: the objects in C, and an archive of all but main.o
    for f in main pick twice wrap ifunc tls init; do $CC -g "$@" -c $f.c; done
    rm -f libparts.a
    ar rc libparts.a pick.o twice.o ifunc.o tls.o
}
large() { for f; do $CC -g -O1 -fno-pie -mcmodel=large -c "$f.c"; done; } # NAMES...: objects
l() { $CC $with -o prog "$@"; } # OBJECTS, FLAGS...: the program in C
ll() { $CXX $with -o prog "$@"; }
so() { $CC $with -shared -o libparts.so "$@" $parts; } # FLAGS...: all but main.o as a shared object
cc() { for f in one two; do $CXX -g "$@" -c $f.cc; done; } # FLAGS...: those in C++
C
# functions PROGRAM COUNTS: "FUNCTION CALLS" of those that are known by one name in every form.
functions() {
    "$MTOOL" blocks --json "$@" | jq -r '.functions[] | "\(.function) \(.calls)"' |
        sed 's/\.lto_priv\.[0-9]* / /' | grep -E "^($names) "
}
names='main|pick|twice|unused|odd|even|wrapped|__wrap_wrapped|one_way|other_way|tls_sum|at_end|begun|first|second|third'
names+='|_Z5otheri|_Z7checkedi|_Z7largest[A-Za-z0-9_]*|_ZNK6square4areaEi'
export MTOOL_LD_OUT=$PWD/out/%n
mkdir out
sums() { find . -name '*.[oa]' -exec md5sum {} + | sort; }

# form NAME LINKERS COMPILE LINK [WANTED]: COMPILE makes objects; LINK makes ./prog of them by each of the linkers; both
# are bash, with build.sh read and the linker in $with. The functions' calls are those in the file WANTED, which the
# first that comes with it makes; none: they are not compared.
form() {
    local name=$1 linkers=$2 wanted=${5:-} linker plain before
    rm -f ./*.o ./*.a ./*.dwo
    bash -c ". ./build.sh; $3" >compile.out 2>&1 || { not_ok "$name: compiled" "$(cat compile.out)"; return; }
    [ ! -s compile.out ] || not_ok "$name: compiled without a word" "$(cat compile.out)"
    for linker in $linkers; do
        command -v "ld.$linker" >/dev/null || { skip "$name, $linker" "not installed"; continue; }
        rm -f prog ./*.so out/*
        export with=-fuse-ld=$linker
        bash -c ". ./build.sh; $4" >plain.ld 2>&1 ||
            { not_ok "$name, $linker: linked plainly" "$(cat plain.ld)"; continue; }
        LD_LIBRARY_PATH=. ./prog >plain.out 2>&1
        plain=$?
        rm -f prog ./*.so
        before=$(sums)
        "$MTOOL" ld -v -- bash -c ". ./build.sh; $4" >ld.out 2>ld.err
        is "$name, $linker: linked" "$? $(grep -vE '^mtool: ' ld.out ld.err)" "0 $(cat plain.ld)"
        is "$name, $linker: by us" "$(grep -E 'ld-plain|ld-none' ld.err)" ""
        LD_LIBRARY_PATH=. ./prog >ld.out 2>&1
        is "$name, $linker: the program" "$? $(cat ld.out)" "$plain $(cat plain.out)"
        is "$name, $linker: the build's own files" "$(sums)" "$before"
        is "$name, $linker: nothing is left" "$(ls -A "$TMPDIR")" ""
        [ -n "$wanted" ] || continue
        for f in out/*; do functions "./${f#out/}" "$f"; done |
            awk '{ n[$1] += $2 } END { for (f in n) print f, n[f] }' | sort >got
        [ -s "$wanted" ] || cp got "$wanted"
        is "$name, $linker: counts" "$(cat got)" "$(cat "$wanted")"
    done
}
export every="bfd gold lld mold"

