! SPDX-License-Identifier: Apache-2.0
!
! sums: Fortran as gfortran makes it: array expressions, a contained function, formatted output, a branch by cases.
program sums
    implicit none
    integer :: i, total
    real(8) :: a(50, 50), s
    total = 0
    do i = 1, 500
        call step(total, mod(i, 4))
    end do
    do i = 1, 50
        a(:, i) = [(real(i * 3 + total, 8), total=1, 50)]
    end do
    s = sum(matmul(a, transpose(a)))
    print '(a, i0)', 'total ', total
    print '(a, es22.14)', 'sum ', s
    print '(a)', 'expect step_ 500'
end program sums

subroutine step(total, which)
    integer, intent(inout) :: total
    integer, intent(in) :: which
    select case (which)
    case (0)
        total = total + 1
    case (1)
        total = total * 3
    case (2)
        total = total - 2
    case default
        total = mod(total, 1000)
    end select
end subroutine step
