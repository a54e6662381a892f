# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# lib.sh: what the end-to-end cases say things with. Every check prints one TAP line; what a reader needs to see why it
# failed follows as "# " lines. A case runs in an empty folder; $MTOOL is the program under test.

PROGRAMS=$E2E/programs
export REFUSED=2 # status when the program or an option cannot be used
export SELF_FAILED=125 # status of count and run when mtool itself failed, as with env(1)

ok() { echo "ok - $1${timed:-}"; }
not_ok() { # NAME TEXT...
    echo "not ok - $1${timed:-}"
    shift
    printf '%s\n' "$@" | tail -n 40 | sed 's/^/# /'
}
skip() { echo "ok - $1 # SKIP $2"; }
check() { # NAME COMMAND...
    local name=$1 out
    shift
    if out=$("$@" 2>&1); then ok "$name"; else not_ok "$name" "$*: status $?" "$out"; fi
}
is() { # NAME GOT WANTED
    if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "got:    $2" "wanted: $3"; fi
}
is_like() { # NAME GOT PATTERN: an extended regular expression
    if grep -qE -- "$3" <<<"$2"; then ok "$1"; else not_ok "$1" "got: $2" "wanted something like: $3"; fi
}

# timed CHECK ARGS...: a check of a time, or of what rests on samples. A neighbour on the machine may spoil it: where no
# other check of a case fails, the case has two more attempts (run).
timed() { timed=' (timed)' "$@"; }

# build OUT SOURCE [FLAGS...]: SOURCE under programs/, by its suffix; CC, CXX and FC may be set.
build() {
    local out=$1 source=$PROGRAMS/$2 how
    shift 2
    # shellcheck disable=SC2206 # a compiler, and options of it
    case $source in
    *.c) how=(${CC:-gcc} -g -O2 -I "$PROGRAMS" "$source" "$@") ;;
    *.cc) how=(${CXX:-g++} -g -O2 -I "$PROGRAMS" "$source" "$@") ;;
    *.f90) how=(${FC:-gfortran} -g -O2 -J . "$source" "$@") ;;
    esac
    "${how[@]}" -o "$out" || { not_ok "build of $out" "see above"; return 1; }
    mkdir -p linked && rm -f "linked/${out##*/}" && declare -p how >"linked/${out##*/}.how" # for run_linked
}

# run_plain / run_counted PROGRAM ARGS...: leave plain.* or counted.* (out, err, status); stdin is $INPUT or nothing.
run_plain() {
    "$@" <"${INPUT:-/dev/null}" >plain.out 2>plain.err
    plain_status=$?
}
run_counted() {
    rm -f counted.mtool
    # shellcheck disable=SC2086 # no option, or one
    "$MTOOL" count ${COUNT_OPTION:-} -o counted.mtool -- "$@" <"${INPUT:-/dev/null}" >counted.out 2>counted.err
    counted_status=$?
}

# The same with every reference told to mtool, which only counts them, or by an option some; and poison.
run_referred() {
    # shellcheck disable=SC2086 # no option, or one
    "$MTOOL" trace --form count --poison ${TRACE_OPTION:-} -- "$@" <"${INPUT:-/dev/null}" >counted.out 2>counted.err
    counted_status=$?
}

# What the program itself wrote to stderr: mtool speaks only after the program has ended, in lines that say who speaks.
program_part() { head -c "$(stat -c %s plain.err)" <(grep -v '^mtool: ' counted.err); }

# same NAME PROGRAM ARGS...: plain and counted, the same stdout, stderr and status, and a profile.
same() {
    local name=$1 why=
    shift
    run_plain "$@"
    run_counted "$@"
    [ "$plain_status" = "$counted_status" ] || why+="status: plain $plain_status, counted $counted_status; "
    cmp -s plain.out counted.out || why+="stdout differs; "
    cmp -s plain.err <(program_part) || why+="stderr differs; "
    [ -s counted.mtool ] || why+="no profile; "
    if [ -z "$why" ]; then
        ok "$name: same as plain"
    else
        not_ok "$name: same as plain" "$why" "$(diff plain.out counted.out | head -10)" "$(head -n 20 counted.err)"
    fi
}

# block_counts PROFILE PROGRAM: "ADDRESS SIZE INSTRUCTIONS COUNT" of the executed blocks of that module.
block_counts() {
    "$MTOOL" dump counts --json "$1" | jq -r --arg path "$(realpath "$2")" \
        '.blocks[] | select(.module == $path) | "\(.address) \(.size_bytes) \(.instructions) \(.count)"'
}

# expected NAME PROGRAM: every "expect PLACE NUMBER" that the program printed holds: the sum of the counts of the blocks
# around the labels here_PLACE_*, or of the block at the entry of function PLACE.
counts_hold() { # PROGRAM
    block_counts counted.mtool "$1" >blocks.txt
    nm "$1" | grep -iE '^[0-9a-f]+ [tw] ' >symbols.txt
    perl "$E2E/expected.pl" counted.out symbols.txt blocks.txt
}
expected() {
    local out
    if out=$(counts_hold "$2"); then
        ok "$1: exact counts ($out)"
    else
        not_ok "$1: exact counts" "$out" "$(tail -n 5 counted.err)"
    fi
}
same_and_expected() { # NAME PROGRAM ARGS...
    same "$@"
    expected "$1" "$2"
}

# as_stepped PROGRAM[, WAY]: its counts in counted.mtool are those in steps.txt. Of a static executable two kinds of
# function are not compared: the loader's, which walk over program headers, of which a copy has more; and libc's string
# functions, whose way goes by where in a page a string of the environment lies, and that is drawn anew for each run.
as_stepped() {
    local out program apart='^_?_dl|^__(str|mem|raw)[a-z]*_(sse|avx|evex)'
    program=$(realpath "./${1%%,*}")
    "$MTOOL" dump counts --json counted.mtool >counts.json
    jq -r --arg path "$program" --arg apart "$apart" '.blocks[] | select(.module == $path) |
        "\(.address) \(.size_bytes) \(.instructions) \(if .function | test($apart) then "-" else .count end)"' \
        counts.json >blocks.txt
    jq -r --arg path "$program" --arg apart "$apart" '([.blocks[] | select(.function | test($apart))
        | .address]) as $not | .edges[] | select(.module == $path) |
        select(.from as $f | $not | index($f) | not) | "\(.from) \(.to) \(.count)"' counts.json >edges.txt
    if out=$(perl "$E2E/steps.pl" steps.txt blocks.txt edges.txt); then
        ok "$1: $out"
    else
        not_ok "$1: every block and edge" "$out"
    fi
}

# run_moved PROGRAM ARGS...: leaves moved.* of a run in which the program and its libraries are only moved, nothing is
# counted. The copies lie in the folder moved/, under the originals' names, and are made once.
run_moved() {
    local program=$1 lib
    shift
    mkdir -p moved/lib
    [ -e "moved/$program" ] || "$MTOOL" instrument -q --none -o "moved/$program" "$program" >moved.err 2>&1
    for lib in $(ldd "$program" 2>/dev/null | awk '$3 ~ "^/" { print $3 }'); do
        [ -e "moved/lib/${lib##*/}" ] || "$MTOOL" instrument -q --none -o "moved/lib/${lib##*/}" \
            "$(realpath "$lib")" >>moved.err 2>&1
    done
    (LD_LIBRARY_PATH=$PWD/moved/lib exec -a "$program" "moved/$program" "$@") <"${INPUT:-/dev/null}" \
        >moved.out 2>moved.err
    moved_status=$?
}

# run_linked PROGRAM ARGS...: leaves linked.* of a run of what `build` made, linked once more, by mtool ld; so are those
# shared objects of `build` that are named in ARGS. Its counts are in linked/counts.*.
run_linked() {
    local program=$1 word name words=()
    for word in "$@"; do
        name=${word##*/}
        [ "$word" = "./$name" ] && [ -e "linked/$name.how" ] && word=linked/$name && link_anew "$name"
        words+=("$word")
    done
    rm -f linked/counts.*
    (MTOOL_LD_OUT=$PWD/linked/counts.%n.%p exec -a "$program" "${words[@]}") <"${INPUT:-/dev/null}" \
        >linked.out 2>linked.err
    linked_status=$?
}
link_anew() { # NAME
    local how
    [ -e "linked/$1" ] && return
    # shellcheck source=/dev/null
    . "linked/$1.how"
    "$MTOOL" ld -- "${how[@]}" -o "linked/$1" >"linked/$1.said" 2>&1
    grep -q 'ld-plain' "linked/$1.said" && not_ok "link of $1" "$(cat "linked/$1.said")"
    return 0
}
linked_counts_hold() { # PROGRAM: as counts_hold, of code that was not taken over as it is
    local name=${1##*/} some=
    grep -qE 'taken over as|0 of 0 functions' "linked/$name.said" && some=some
    "$MTOOL" blocks --json "linked/$name" "linked/counts.$name".* | jq -r \
        '.functions[].blocks[] | "\(.address) \(.bytes) \(.instructions) \(.count)"' >blocks.txt
    nm "linked/$name" | grep -iE '^[0-9a-f]+ [tw] ' >symbols.txt
    perl "$E2E/expected.pl" linked.out symbols.txt blocks.txt $some
}

# every_way NAME PROGRAM ARGS...: plain, counted with few counters, with one in every block, with the old code poisoned,
# with probes around every procedure and loop (and poison), with a site at every reference (and poison), with those
# that change something in a cache, only moved, and linked by mtool ld if `build` made it: always the same stdout,
# stderr and status;
# and whatever it expects of its counts holds in the counted runs. WAYS may name fewer of them.
every_way() {
    local name=$1 way why said
    shift
    run_plain "$@"
    for way in ${WAYS:-count all-blocks poison probes references filtered sets samples moved linked}; do
        why=
        [ $way != linked ] || [ -e "linked/${1##*/}.how" ] || continue
        case $way in
        linked) run_linked "$@" ;;
        count) run_counted "$@" ;;
        moved) run_moved "$@" ;;
        probes) COUNT_OPTION='--all-probes --poison' run_counted "$@" ;;
        references) run_referred "$@" ;;
        filtered) TRACE_OPTION='--filter 64 --form allocations --force -o places' run_referred "$@" ;;
        samples) TRACE_OPTION='--filter 64 --sample-length 500' run_referred "$@" ;;
        sets) TRACE_OPTION='--filter 64 --sets 1/4' run_referred "$@" ;;
        *) COUNT_OPTION=--$way run_counted "$@" ;;
        esac
        if [ $way = moved ]; then
            [ "$plain_status" = "$moved_status" ] || why+="status: plain $plain_status, moved $moved_status; "
            cmp -s plain.out moved.out || why+="stdout differs; "
            cmp -s plain.err moved.err || why+="stderr differs; "
            said=$(diff plain.out moved.out | head -n 12; head -n 8 moved.err)
        elif [ $way = linked ]; then
            [ "$plain_status" = "$linked_status" ] || why+="status: plain $plain_status, linked $linked_status; "
            cmp -s plain.out linked.out || why+="stdout differs; "
            cmp -s plain.err linked.err || why+="stderr differs; "
            # of static programs that fork, what ends by _exit or exec leaves no counts (doc/ld.md)
            if grep -q '^expect ' linked.out && ! grep -q -e -static "linked/${1##*/}.how"; then
                said=$(linked_counts_hold "$1") || why+="counts: $said; "
            fi
            said=$(diff plain.out linked.out | head -n 12; head -n 8 linked.err; cat "linked/${1##*/}.said")
        else
            [ "$plain_status" = "$counted_status" ] || why+="status: plain $plain_status, counted $counted_status; "
            cmp -s plain.out counted.out || why+="stdout differs; "
            cmp -s plain.err <(program_part) || why+="stderr differs; "
            if [[ $way != @(probes|references|filtered|sets|samples) ]] && grep -q '^expect ' counted.out; then
                said=$(counts_hold "$1") || why+="counts: $said; "
            fi
            said=$(diff plain.out counted.out | head -n 12; head -n 8 counted.err)
        fi
        if [ -z "$why" ]; then ok "$name, $way"; else not_ok "$name, $way" "$why" "$said"; fi
    done
}

# refused NAME PATTERN STATUS COMMAND...: ends with STATUS, says exactly one line, which matches, and leaves no file.
refused() {
    local name=$1 pattern=$2 wanted=$3 status said before
    shift 3
    before=$(ls -A)
    said=$("$@" 2>&1 >refused.out </dev/null)
    status=$?
    local why=
    [ "$status" = "$wanted" ] || why+="status $status, wanted $wanted; "
    [ "$(wc -l <<<"$said")" = 1 ] || why+="not exactly one line; "
    grep -qiE -- "$pattern" <<<"$said" || why+="the line is not like '$pattern'; "
    [ -s refused.out ] && why+="something on stdout; "
    rm -f refused.out
    [ "$(ls -A)" = "$before" ] || why+="files left: $(ls -A | tr '\n' ' '); "
    if [ -z "$why" ]; then ok "$name"; else not_ok "$name" "$*" "$why" "$said"; fi
}

# launch_modes: those that work here, for MTOOL_LAUNCH
launch_modes() {
    is_root && unshare -m true 2>/dev/null && echo root-ns
    unshare -Ur true 2>/dev/null && echo user-ns
    echo path
}

is_root() { [ "$(id -u)" = 0 ]; }

# finish: no process of this case may be left, and nothing in the temporary folder.
finish() {
    local left='' pid
    for pid in /proc/[0-9]*; do
        pid=${pid#/proc/}
        [ "$pid" = $$ ] || [ "$pid" = "$PPID" ] && continue
        if grep -qz "^E2E_MARK=$E2E_MARK\$" "/proc/$pid/environ" 2>/dev/null; then
            left+="$pid $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null); "
            kill -9 "$pid"
        fi
    done
    is "no process left behind" "$left" ""
    is "nothing left in the temporary folder" "$(ls -A "$TMPDIR")" ""
}
