// SPDX-License-Identifier: Apache-2.0
//
// panics: Rust's unwinding: caught panics with values dropped on the way, in threads and through closures, and a match as
// a table. Prints how often the named functions must have run.
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};

static DROPS: AtomicU64 = AtomicU64::new(0);
struct Guard(u64);
impl Drop for Guard {
    #[inline(never)]
    fn drop(&mut self) {
        DROPS.fetch_add(self.0, Ordering::Relaxed);
    }
}

#[no_mangle]
#[inline(never)]
pub fn place_descend(n: u64) -> u64 {
    let _guard = Guard(n);
    match n % 8 {
        0 if n == 0 => panic!("bottom"),
        1 => place_descend(n - 1) + 1,
        2 => place_descend(n - 1) * 3,
        3 => place_descend(n - 1) ^ 5,
        4 => place_descend(n - 1) + n,
        5 => place_descend(n - 1) - 1,
        6 => place_descend(n - 1) | 1,
        _ => place_descend(n - 1),
    }
}

#[no_mangle]
#[inline(never)]
pub fn place_checked(v: &[u64], i: usize) -> u64 {
    v[i]
}

fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let mut caught = 0;
    for i in 0..50u64 {
        caught += catch_unwind(|| place_descend(i % 10)).is_err() as u64;
    }
    let v = vec![1, 2, 3];
    let sum: u64 = (0..6).map(|i| catch_unwind(AssertUnwindSafe(|| place_checked(&v, i))).unwrap_or(100)).sum();
    let thread = std::thread::spawn(|| place_descend(4)).join();
    let again = catch_unwind(|| resume_unwind(Box::new(7u32))).unwrap_err();
    println!("{} {} {} {} {}", caught, sum, thread.is_err(), again.downcast_ref::<u32>().unwrap(), DROPS.load(Ordering::Relaxed));
    println!("expect place_descend {}", 5 * 55 + 5);
    println!("expect place_checked 6");
}
