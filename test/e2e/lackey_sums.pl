#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# lackey_sums.pl NM TRACE: of what valgrind's lackey wrote (--trace-mem=yes): "code LOADS STORES INSTRUCTIONS" of all
# functions that NM (nm -n -S) lists, and "NAME LOADS STORES" of each object in it that such code refers to.
use strict;
use warnings;
no warnings 'portable'; # addresses have 64 bits
my ($nm, $trace) = @ARGV;
my (@code, @data);
open(my $f, '<', $nm) or die "$nm: $!\n";
while (<$f>) {
    my ($at, $bytes, $type, $name) = /^(\w+) (\w+) (\w) (\S+)$/ or next;
    push @{$type =~ /^[tTwW]$/ ? \@code : \@data}, [hex $at, hex($at) + hex $bytes, $name];
}
sub find {
    my ($all, $at) = @_;
    my ($lo, $hi) = (0, scalar @$all);
    while ($lo < $hi) {
        my $mid = int(($lo + $hi) / 2);
        if ($all->[$mid][0] <= $at) { $lo = $mid + 1 } else { $hi = $mid }
    }
    return $lo && $at < $all->[$lo - 1][1] ? $all->[$lo - 1] : undef;
}
my ($in, %known, %sum, %code) = (0);
open($f, '<', $trace) or die "$trace: $!\n";
while (<$f>) {
    my ($kind, $at) = /^(I | L| S| M) +([0-9a-f]+),/ or next;
    if ($kind eq 'I ') {
        $in = $known{$at} //= find(\@code, hex $at) ? 1 : 0;
        $code{I} += $in;
        next;
    }
    next unless $in;
    my $o = find(\@data, hex $at);
    for my $k ($kind eq ' M' ? ('L', 'S') : substr($kind, 1)) {
        $code{$k}++;
        $sum{$o->[2]}{$k}++ if $o;
    }
}
printf "code %d %d %d\n", $code{L} // 0, $code{S} // 0, $code{I} // 0;
printf "%s %d %d\n", $_, $sum{$_}{L} // 0, $sum{$_}{S} // 0 for sort keys %sum;
