# SPDX-License-Identifier: Apache-2.0
#
# awk [-v of_mode=user] -f level_misses.awk FILE.monster: "FETCHES READS WRITES" of all functions: references, then a
# line of misses for each level of the caches. Line `levels` says which of a function's columns are a level's. An
# instruction that is begun again was fetched twice.
/^levels/ {
    for (i = 2; i <= NF; i++) {
        split($i, part, ":")
        data[i - 2] = part[2]
        code[i - 2] = part[3]
    }
    n = NF - 1
}
/^columns/ { for (i = 2; i <= NF; i++) at[$i] = i + 2 }
/^function/ && ($2 == of_mode || of_mode == "") {
    split($0, tabs, "\t")
    split(tabs[1], field, " ")
    for (column in at) sum[column] += field[at[column]]
}
function of(what, depth) { return depth < 0 ? 0 : sum[what "_misses" (depth > 0 ? "_" depth + 1 : "")] + 0 }
END {
    print sum["instructions"] + sum["restarts"], sum["reads"] + 0, sum["writes"] + 0
    for (i = 0; i < n; i++) print of("fetch", code[i]), of("read", data[i]), of("write", data[i])
}
