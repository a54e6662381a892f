/* SPDX-License-Identifier: Apache-2.0
 * A library that is only read: what a call through a linkage stub goes to. */
long far_leaf(long x);
long far_leaf(long x) { return x * x; }
