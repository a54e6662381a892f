# SPDX-License-Identifier: Apache-2.0
# expected.pl OUTPUT SYMBOLS BLOCKS: compares "expect PLACE NUMBER" lines of a program's output with the counts of the
# blocks (lines "ADDRESS SIZE INSTRUCTIONS COUNT") that hold the labels here_PLACE_* or the function PLACE. With a fourth
# word, places that are in no block are left out.
use strict;
use warnings;
my ($output, $symbols, $blocks, $some) = @ARGV;
my (@block, %places, %functions, $right, $out, @wrong);
open my $blocks_file, '<', $blocks or die "$blocks: $!";
while (<$blocks_file>) {
    my ($addr, $size, undef, $count) = split;
    push @block, [hex $addr, hex($addr) + $size, $count];
}
@block = sort { $a->[0] <=> $b->[0] } @block;
open my $symbols_file, '<', $symbols or die "$symbols: $!";
while (<$symbols_file>) {
    my ($addr, undef, $name) = split;
    $name =~ /^here_(.*)_\d+$/ ? ($places{$1}{hex $addr} = 1) : ($functions{$name}{hex $addr} = 1);
}
sub count_at { # undefined: it is in no block
    my ($addr) = @_;
    my ($lo, $hi) = (0, scalar @block);
    while ($lo < $hi) {
        my $mid = int(($lo + $hi) / 2);
        $block[$mid][1] <= $addr ? ($lo = $mid + 1) : ($hi = $mid);
    }
    return $lo < @block && $block[$lo][0] <= $addr ? $block[$lo][2] : undef;
}
open my $output_file, '<', $output or die "$output: $!";
while (<$output_file>) {
    /^expect (\S+) (\d+)$/ or next;
    my ($place, $want) = ($1, $2);
    my $got = 0;
    my $found = $places{$place} || $functions{$place};
    push @wrong, "$place: no such label or function" unless $found;
    my @at = map { count_at($_) } keys %{$found || {}};
    if ($some && $found && grep { !defined } @at) { $out++; next }
    $got += $_ // 0 for @at;
    $got == $want ? $right++ : push @wrong, "$place: counted $got, wanted $want";
}
print @wrong ? join("\n", @wrong) : ($right || 0) . " places", "\n";
exit(@wrong || !($right || $out) ? 1 : 0);
