# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the cases of mtool monster share: a guest, prepared once for all of them and kept in the build folder.

export XDG_CACHE_HOME=$BUILD/monster-cache
can_monster() { # or skips, and says why
    local said
    command -v qemu-system-x86_64 >/dev/null || { skip "$1" "qemu-system-x86 is not installed"; return 1; }
    said=$(flock "$BUILD" "$MTOOL" monster prepare 2>&1) && return 0
    if grep -qE 'cannot fetch|knows no package|has no apt' <<<"$said"; then
        skip "$1" "no kernel image can be fetched here"
    else
        not_ok "$1: prepare" "$said"
    fi
    return 1
}

# all_counted FILE: instructions of all functions less those that the guest's clock counted, without halts; 0
all_counted() { awk '/^clock/ { clock = $2 } /^function/ { sum += $4 } END { print sum + 4 - clock }' "$1"; }
