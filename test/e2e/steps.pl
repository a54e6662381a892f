# SPDX-License-Identifier: Apache-2.0
# steps.pl STEPS BLOCKS EDGES: compares what programs/stepper.c saw with the counts of mtool, block by block and edge by
# edge; at most 5 % of the steps may lie in no counted block. BLOCKS has lines "ADDRESS SIZE INSTRUCTIONS COUNT" (count
# "-":
# not compared), EDGES "FROM TO COUNT", addresses with 0x.
use strict;
use warnings;
my ($steps, $blocks, $edges) = @ARGV;
my (%at, %pair, %into, @block, %size, @wrong, $right);
open my $steps_file, '<', $steps or die "$steps: $!";
while (<$steps_file>) {
    my ($prev, $addr, $count) = split;
    $at{hex $addr} += $count;
    push @{$into{hex $addr}}, [hex $prev, $count] if $prev ne '-';
}
open my $blocks_file, '<', $blocks or die "$blocks: $!";
while (<$blocks_file>) {
    my ($addr, $size, undef, $count) = split;
    $addr = hex $addr;
    $size{$addr} = $size;
    next if $count eq '-';
    my $want = $at{$addr} || 0;
    $count == $want ? $right++ : push @wrong, sprintf "block %x: counted %s, stepped %s", $addr, $count, $want;
}
# Edges by jumps that share one table of labels (computed goto) are apportioned, not counted: edges to a block that some
# block with more than two ways out leads to are only told of where they differ.
open my $edges_file, '<', $edges or die "$edges: $!";
my (%out, %shared, $apportioned);
while (<$edges_file>) {
    my ($from, $to, $count) = split;
    push @{$out{hex $from}}, [hex $to, $count] if $size{hex $from};
}
for (values %out) {
    $shared{$_->[0]} = 1 for @$_ > 2 ? @$_ : ();
}
for my $from (sort { $a <=> $b } keys %out) {
    for (@{$out{$from}}) {
        my ($to, $count) = @$_;
        my $want = 0;
        $want += $_->[1] for grep { $_->[0] >= $from && $_->[0] < $from + $size{$from} } @{$into{$to} || []};
        next if !$want && $to == $from + $size{$from}; # a call and its return point: the step before is the return
        if ($count == $want) {
            $right++;
        } elsif ($shared{$to}) {
            $apportioned++;
        } else {
            push @wrong, sprintf "edge %x to %x: counted %s, stepped %s", $from, $to, $count, $want;
        }
    }
}
my ($all, $outside) = (0, 0);
my @starts = sort { $a <=> $b } keys %size;
my $i = 0;
for my $addr (sort { $a <=> $b } keys %at) {
    $i++ while $i < $#starts && $starts[$i + 1] <= $addr;
    $all += $at{$addr};
    $outside += $at{$addr} unless @starts && $starts[$i] <= $addr && $addr < $starts[$i] + $size{$starts[$i]};
}
push @wrong, "$outside of $all steps lie in no counted block" if $outside > 0.05 * $all;
splice @wrong, 12, @wrong - 12, "... " . (@wrong - 12) . " more" if @wrong > 12;
print @wrong ? join("\n", @wrong) : "$right blocks and edges, " . ($apportioned || 0) . " table edges apportioned, $outside of $all steps outside", "\n";
exit(@wrong || !$right ? 1 : 0);
