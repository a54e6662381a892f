# SPDX-License-Identifier: Apache-2.0
# lackey_same.pl NM OURS LACKEY: are two traces in lackey's form the same, as far as functions go that NM (nm -S) names?
# Of lackey's, which sees all of the program, only instructions count that ours has: what was inserted is left out.
# Addresses from 4 GB on are of the stack: those are compared by their distance from the first. Prints how many lines.
use strict;
use warnings;
no warnings 'portable';

my ($nm, $ours, $lackey) = @ARGV;
my @functions;
open my $in, '<', $nm or die "$nm: $!\n";
while (<$in>) {
    my @w = split;
    push @functions, [hex $w[0], hex($w[0]) + hex $w[1]] if @w == 4 && $w[2] =~ /^[tT]$/;
}

sub is_inside {
    my $at = shift;
    for (@functions) { return 1 if $at >= $_->[0] && $at < $_->[1]; }
    return 0;
}

my %inside;
sub read_trace {
    my ($name, $own) = @_;
    my ($keep, $first, @out) = 0;
    open my $trace, '<', $name or die "$name: $!\n";
    while (<$trace>) {
        my ($kind, $address, $bytes) = /^(I | [LSM])\s+([0-9a-f]+),(\d+)$/ or next;
        if ($kind eq 'I ') {
            $inside{$address} //= is_inside(hex $address);
            $keep = $own ? $own->{$address} : $inside{$address};
        }
        next unless $keep;
        my $at = hex $address;
        if ($at >= 1 << 32) {
            $first //= $at;
            $at = 'stack' . ($at - $first);
        }
        push @out, [$kind, $at, $bytes, $address];
    }
    return \@out;
}

my $a = read_trace($ours);
my %own = map { $_->[3] => 1 } grep { $_->[0] eq 'I ' } @$a;
my $b = read_trace($lackey, \%own);
for my $i (0 .. ($#$a > $#$b ? $#$a : $#$b)) {
    my ($x, $y) = map { $_ ? "@{$_}[0..2]" : 'nothing' } $a->[$i], $b->[$i];
    die "line $i: $x, by lackey $y\n" if $x ne $y;
}
print scalar @$a, "\n";
