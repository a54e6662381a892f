# SPDX-License-Identifier: Apache-2.0
# expected.pl OUTPUT SYMBOLS BLOCKS: compares "expect PLACE NUMBER" lines of a program's output with the counts of the
# blocks (lines "ADDRESS SIZE INSTRUCTIONS COUNT") that hold the labels here_PLACE_* or the function PLACE.
use strict;
use warnings;
my ($output, $symbols, $blocks) = @ARGV;
my (@block, %places, $right, @wrong);
open my $b, '<', $blocks or die "$blocks: $!";
while (<$b>) {
    my ($addr, $size, undef, $count) = split;
    push @block, [hex $addr, hex($addr) + $size, $count];
}
@block = sort { $a->[0] <=> $b->[0] } @block;
open my $s, '<', $symbols or die "$symbols: $!";
while (<$s>) {
    my ($addr, undef, $name) = split;
    my $place = $name =~ /^here_(.*)_\d+$/ ? $1 : $name;
    $places{$place}{hex $addr} = 1;
}
sub count_at {
    my ($addr) = @_;
    my ($lo, $hi) = (0, scalar @block);
    while ($lo < $hi) {
        my $mid = int(($lo + $hi) / 2);
        $block[$mid][1] <= $addr ? ($lo = $mid + 1) : ($hi = $mid);
    }
    return $lo < @block && $block[$lo][0] <= $addr ? $block[$lo][2] : 0;
}
open my $o, '<', $output or die "$output: $!";
while (<$o>) {
    /^expect (\S+) (\d+)$/ or next;
    my ($place, $want) = ($1, $2);
    my $got = 0;
    push @wrong, "$place: no such label or function" unless $places{$place};
    $got += count_at($_) for keys %{$places{$place} || {}};
    $got == $want ? $right++ : push @wrong, "$place: counted $got, wanted $want";
}
print @wrong ? join("\n", @wrong) : ($right || 0) . " places", "\n";
exit(@wrong || !$right ? 1 : 0);
