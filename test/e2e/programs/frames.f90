! SPDX-License-Identifier: Apache-2.0
!
! frames: a Fortran procedure with arrays of its own that calls back into C++ (frames.cc), which throws through it; a select
! case; and an alternate entry.
subroutine walk(callback, n, total) bind(c)
    use iso_c_binding
    implicit none
    interface
        subroutine callback(i) bind(c)
            import :: c_int
            integer(c_int), value :: i
        end subroutine
    end interface
    integer(c_int), value :: n
    integer(c_int) :: total
    real(8) :: room(n + 1)
    integer :: i
    room = 0
    do i = 1, n
        select case (mod(i, 5))
        case (0)
            room(i) = i
        case (1)
            room(i) = -i
        case (2:3)
            room(i) = i / 2
        case default
            room(i) = sqrt(real(i, 8))
        end select
        total = total + int(sum(room))
        call callback(int(i, c_int))
    end do
end subroutine
