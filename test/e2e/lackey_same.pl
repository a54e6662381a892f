# SPDX-License-Identifier: Apache-2.0
# lackey_same.pl NM OURS LACKEY [PLACES]: are two traces in lackey's form the same, as far as functions go that NM
# (nm -S) names? Of lackey's, which sees all of the program, only instructions count that ours has: what was inserted is
# left out. Stack and heap are elsewhere under valgrind: references may differ by as many distances as PLACES says (1),
# instructions by none. A locked instruction is a load and a modification by lackey, and here the latter alone. Prints
# how many lines there are.
use strict;
use warnings;
no warnings 'portable';

my ($nm, $ours, $lackey, $places) = (@ARGV, 1);
my @functions;
open my $in, '<', $nm or die "$nm: $!\n";
while (<$in>) {
    my @w = split;
    push @functions, [hex $w[0], hex($w[0]) + hex $w[1], $w[3]] if @w == 4 && $w[2] =~ /^[tT]$/;
}

sub is_inside {
    my $at = shift;
    for (@functions) { return 1 if $at >= $_->[0] && $at < $_->[1]; }
    return 0;
}

my (%inside, %seen);
sub read_trace {
    my ($name, $own) = @_;
    my ($keep, @out) = 0;
    open my $trace, '<', $name or die "$name: $!\n";
    while (<$trace>) {
        my ($kind, $address, $bytes) = /^(I | [LSM])\s+([0-9a-f]+),(\d+)$/ or next;
        if ($kind eq 'I ') {
            $inside{$address} //= is_inside(hex $address);
            $seen{$address} = 1;
            $keep = $own ? $own->{$address} : $inside{$address};
        }
        next unless $keep;
        my $last = $out[-1];
        pop @out if $kind eq ' M' && $last && $last->[0] eq ' L' && $last->[1] eq $address && $last->[2] == $bytes;
        push @out, [$kind, $address, $bytes];
    }
    return \@out;
}

my $a = read_trace($ours);
my %own = map { $_->[1] => 1 } grep { $_->[0] eq 'I ' } @$a;
my $b = read_trace($lackey, \%own);
for my $f (@functions) {
    my ($in_ours, $in_lackeys) = map { scalar grep { hex $_ >= $f->[0] && hex $_ < $f->[1] } keys %$_ } \%own, \%seen;
    die "function $f->[2] is not traced\n" if $in_lackeys && !$in_ours;
}
my %distances = (0 => 1);
for my $i (0 .. ($#$a > $#$b ? $#$a : $#$b)) {
    my ($x, $y) = ($a->[$i], $b->[$i]);
    my $is_same = $x && $y && $x->[0] eq $y->[0] && $x->[2] == $y->[2];
    if ($is_same && $x->[1] ne $y->[1]) {
        $distances{hex($x->[1]) - hex $y->[1]}++;
        $is_same = $x->[0] ne 'I ' && keys %distances <= 1 + $places;
    }
    die "line $i: ", $x ? "@$x" : 'nothing', ", by lackey ", $y ? "@$y" : 'nothing', "\n" unless $is_same;
}
print scalar @$a, "\n";
