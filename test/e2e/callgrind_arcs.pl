#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# callgrind_arcs.pl FILE: "CALLER CALLEE CALLS" of each pair of functions in what callgrind wrote, sorted.
use strict;
use warnings;
my (%name, %calls, $caller, $callee);
sub name {
    my ($text) = @_;
    my ($id, $name) = $text =~ /^\((\d+)\)(?: (.*))?$/ or return $text;
    $name{$id} = $name if defined $name;
    $name{$id} =~ s/'\d+$//; # a level of recursion
    return $name{$id};
}
while (<>) {
    chomp;
    if (/^fn=(.*)/) { $caller = name($1) }
    elsif (/^cfn=(.*)/) { $callee = name($1) }
    elsif (/^calls=(\d+)/) { $calls{"$caller $callee"} += $1 }
}
print "$_ $calls{$_}\n" for sort keys %calls;
