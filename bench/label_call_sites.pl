# SPDX-License-Identifier: Apache-2.0
# label_call_sites.pl <ABBREVIATIONS >NEW: in a .debug_abbrev the entries of call sites become those of labels, in as
# many bytes. Where one of them is in a block, llvm-dwarfdump 14 --verify never ends.
use strict;
use warnings;
local $/;
binmode STDIN;
binmode STDOUT;
my $all = <STDIN>;
my $at = 0;

sub uleb {
    my ($value, $shift) = (0, 0);
    while (1) {
        my $byte = ord substr $all, $at++, 1;
        $value |= ($byte & 127) << $shift;
        $shift += 7;
        return $value unless $byte & 128;
    }
}

while ($at < length $all) {
    uleb() or next;
    my $from = $at;
    my $tag = uleb();
    substr($all, $from, $at - $from) = $tag == 0x48 ? "\x0a" : "\x8a\x80\x00" if $tag == 0x48 || $tag == 0x4109;
    $at++;
    while (1) {
        my ($name, $form) = (uleb(), uleb());
        uleb() if $form == 0x21;
        last if !$name && !$form;
    }
}
print $all;
