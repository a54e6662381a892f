! SPDX-License-Identifier: Apache-2.0
! relax [N]: sweeps of a five-point relaxation over a grid of N by N, then sums along rows, across memory. Prints one value.
program relax
  implicit none
  integer, parameter :: most = 2000
  double precision, allocatable :: a(:, :), b(:, :)
  character(len=16) :: text
  integer :: n, i, sweep
  double precision :: total
  n = 600
  if (command_argument_count() > 0) then
    call get_command_argument(1, text)
    read (text, *) n
  end if
  n = min(n, most)
  allocate (a(n, n), b(n, n))
  do i = 1, n
    a(:, i) = dble(mod(i, 17))
  end do
  b = a
  total = 0
  do sweep = 1, 400
    call step(a, b, n)
    call step(b, a, n)
    if (mod(sweep, 10) == 0) total = total + across(a, n)
  end do
  print '(es14.6)', total
contains
  subroutine step(from, to, n)
    integer, intent(in) :: n
    double precision, intent(in) :: from(n, n)
    double precision, intent(inout) :: to(n, n)
    integer :: i, j
    do j = 2, n - 1
      do i = 2, n - 1
        to(i, j) = 0.25d0 * (from(i - 1, j) + from(i + 1, j) + from(i, j - 1) + from(i, j + 1))
      end do
    end do
  end subroutine step

  double precision function across(a, n)
    integer, intent(in) :: n
    double precision, intent(in) :: a(n, n)
    integer :: i, j
    across = 0
    do i = 1, n
      do j = 1, n
        across = across * 0.999d0 + a(i, j)
      end do
    end do
  end function across
end program relax
