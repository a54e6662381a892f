# SPDX-License-Identifier: Apache-2.0
#
# between.pl PROGRAM TRACE: of a trace in lackey's form of programs/told.c what is between the writes to `first` and
# `last`: kind, place from `data` on, bytes. Constants of the program lie elsewhere.
use strict;
use warnings;

my ($program, $trace) = @ARGV;
my (%symbol, $on);
open(my $names, "-|", "nm", $program) or die "nm: $!\n";
while (<$names>) {
    my ($at, undef, $name) = split;
    $symbol{$name} //= hex $at if defined $name;
}
open(my $in, "<", $trace) or die "$trace: $!\n";
while (<$in>) {
    my ($kind, $at, $bytes) = /^ ([LSM]) ([0-9a-f]+),([0-9]+)/ or next;
    last if hex $at == $symbol{last};
    my $place = hex($at) - $symbol{data};
    printf "%s %d,%d\n", $kind, $place, $bytes if $on && $place >= 0 && $place < 16384;
    $on ||= hex $at == $symbol{first};
}
