! SPDX-License-Identifier: Apache-2.0
! eigen [N]: eigenvalues and vectors of a symmetric N x N matrix and a system of N equations, by LAPACK. Prints two sums.
program eigen
  implicit none
  integer, parameter :: dp = kind(1d0)
  integer :: n, i, j, info
  character(len=16) :: text
  real(dp), allocatable :: a(:, :), b(:, :), w(:), work(:), x(:, :)
  integer, allocatable :: pivots(:)
  n = 400
  if (command_argument_count() > 0) then
    call get_command_argument(1, text)
    read (text, *) n
  end if
  allocate (a(n, n), b(n, n), w(n), work(64*n), x(n, 1), pivots(n))
  do j = 1, n
    do i = 1, n
      a(i, j) = 1d0/(1 + abs(i - j)) + modulo(7*i*j, 13)/26d0
    end do
  end do
  a = (a + transpose(a))/2
  b = a
  x = 1
  call dsyev('V', 'U', n, a, n, w, work, size(work), info)
  if (info /= 0) stop 1
  call dgesv(n, 1, b, n, pivots, x, n, info)
  if (info /= 0) stop 2
  print '(2es14.6)', sum(w), sum(x)
end program eigen
