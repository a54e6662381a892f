# SPDX-License-Identifier: Apache-2.0
# sites.pl COUNTS.json SITES MODULE: does every instruction of MODULE in SITES (mtool trace --form sites) make as many
# references as its block was executed (mtool dump counts --json)? String instructions make one for each element. Of a
# twenty-fifth nothing need be told: what chooses the implementation of functions, some hundred references however short
# the program is.
use strict;
use warnings;
use JSON::PP;

my ($counts, $sites, $module) = @ARGV;
open(my $in, '<', $counts) or die "$counts: $!\n";
my $json = decode_json(do { local $/; <$in> });
my @blocks = sort { $a->[0] <=> $b->[0] } map { [hex $_->{address}, $_->{size_bytes}, $_->{count} // 0] }
    grep { $_->{module} eq $module } @{ $json->{blocks} };
my ($same, $all, @wrong) = (0, 0);
open($in, '<', $sites) or die "$sites: $!\n";
my $k = 0;
my %seen;
for (sort { $a->[0] <=> $b->[0] } map { my @f = split; $f[0] eq $module ? [hex $f[1], @f[2 .. 4]] : () } <$in>) {
    my ($at, $kind, $bytes, $count) = @$_;
    $k++ while $k + 1 < @blocks && $blocks[$k + 1][0] <= $at;
    my $executed = $blocks[$k][2];
    $seen{$k}++;
    next if $kind =~ /^untold|^range|^elements|^reach|^kernel/;
    $all += $count;
    $same++ if $count == $executed;
    push @wrong, sprintf('%#x: %s of %s, told %s times, executed %s times', $at, $kind, $bytes, $count, $executed)
        if $count != $executed;
}
my %begin = map { $blocks[$_][0] => 1 } keys %seen;
my @missing = grep { $_->{module} eq $module && $_->{count} && $_->{memory_ops} && !$begin{ hex $_->{address} } }
    @{ $json->{blocks} };
my $untold = 0;
$untold += $_->{count} * $_->{memory_ops} for @missing;
push @wrong, map { "$_->{address}: nothing is told of it" } @missing if $untold > $all / 25;
print @wrong ? join("\n", @wrong[0 .. ($#wrong < 9 ? $#wrong : 9)], '') : "$same instructions, $all references\n";
exit(@wrong || !$same ? 1 : 0);
