! SPDX-License-Identifier: Apache-2.0
!
! Kernels of Fortran: array expressions, matrix products, masks, stencils. Called by fortran.c.
module kernels
    use iso_c_binding
contains
    subroutine f_triad(n, x, y, z) bind(c)
        integer(c_size_t), value :: n
        real(c_double) :: x(n), y(n), z(n)
        z = x + 2.5d0 * y
    end subroutine

    subroutine f_masked(n, x, z) bind(c)
        integer(c_size_t), value :: n
        real(c_double) :: x(n), z(n)
        where (x > 1d0)
            z = x * 0.5d0
        elsewhere
            z = x + 1d0
        end where
    end subroutine

    subroutine f_product(x, y, z) bind(c)
        real(c_double) :: x(16, 16), y(16, 16), z(16, 16)
        integer :: i, j, k
        z = 0
        do j = 1, 16
            do k = 1, 16
                do i = 1, 16
                    z(i, j) = z(i, j) + x(i, k) * y(k, j)
                end do
            end do
        end do
    end subroutine

    subroutine f_intrinsic(x, y, z) bind(c)
        real(c_double) :: x(16, 16), y(16, 16), z(16, 16)
        z = matmul(x, transpose(y))
    end subroutine

    subroutine f_stencil(x, z) bind(c)
        real(c_double) :: x(16, 32), z(16, 32)
        integer :: i, j
        do j = 2, 31
            do i = 2, 15
                z(i, j) = 0.25d0 * (x(i - 1, j) + x(i + 1, j) + x(i, j - 1) + x(i, j + 1)) - x(i, j)
            end do
        end do
    end subroutine

    function f_dot(n, x, y) bind(c) result(s)
        integer(c_size_t), value :: n
        real(c_double) :: x(n), y(n), s
        s = dot_product(x, y) + maxval(x)
    end function

    subroutine f_recurrence(n, x, z) bind(c)
        integer(c_size_t), value :: n
        real(c_double) :: x(n), z(n)
        integer(c_size_t) :: i
        z(1) = 0
        do i = 2, n
            z(i) = z(i - 1) * 0.9d0 + x(i)
        end do
    end subroutine
end module
