# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# quiet.sh: read by the benches of kernels; $mtool is set. How long a kernel takes while nobody else is on the core,
# also on a machine where that is seldom.

QUIET_LEAST=150 # parts of a run

# width_alone: what two nops take beside an addition on a core that nobody shares, as the calibration found it; of any
# program
width_alone() {
    "$mtool" run -q --quick --runs 1 --no-probes --force -o width.mtool -- /bin/true >/dev/null 2>said ||
        { cat said >&2; return 1; }
    "$mtool" machine show --json "$("$mtool" report --json width.mtool | jq -r .machine.description)" |
        jq '.parameters["nop-cycles"] * 2'
}

# quiet_cycles PROGRAM NAME N CALLS WIDTH RUNS: core cycles of a call by runs with enough quiet parts: the second least,
# and the most;
# nothing if there are fewer than two. (One in some runs of a kernel of indirect jumps is several times faster than all
# others.)
quiet_cycles() {
    for ((run = 0; run < $6; run++)); do "$1" "$2" "$3" "$4" cycles "$5"; done |
        awk -v least=$QUIET_LEAST '$2 >= least { print $1 }' | sort -g |
        awk 'NR == 2 { second = $1 } { most = $1 } END { if (NR > 1) print second, most }'
}
