#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# gprof_arcs.pl FILE: "CALLER CALLEE CALLS" of each pair of functions in the call graph that binutils' gprof prints
# (gprof -b -q), sorted.
use strict;
use warnings;
my ($primary, %calls);
while (<>) {
    if (/^---/) { undef $primary }
    elsif (/^\[\d+\]\s.*?\s(?:(\d+)(?:\+(\d+))?\s+)?(\S+)(?: <cycle \d+>)? \[\d+\]$/) {
        $primary = $3;
        $calls{"$primary $primary"} += $2 if defined $2;
    }
    elsif (defined $primary && /\s(\d+)(?:\/\d+)?\s+(\S+)(?: <cycle \d+>)? \[\d+\]$/ && $2 ne $primary) {
        $calls{"$primary $2"} += $1;
    }
}
print "$_ $calls{$_}\n" for sort keys %calls;
