! SPDX-License-Identifier: Apache-2.0
!
! stencil [ROWS COLUMNS REPEATS]: each point of a plane becomes the mean of its four neighbours. Fortran lays arrays out by
! columns: the first index runs fastest in memory. Written by somebody used to C, the inner loop runs over the second
! index and touches three new lines a point; fixed, the loops are exchanged.
module plane
contains
    subroutine smooth(b, a, rows, columns)
        integer, intent(in) :: rows, columns
        real(8), intent(in) :: a(rows, columns)
        real(8), intent(inout) :: b(rows, columns)
        integer :: i, j
#ifdef FIXED
        do j = 2, columns - 1
            do i = 2, rows - 1 ! HOT
#else
        do i = 2, rows - 1
            do j = 2, columns - 1 ! HOT
#endif
                b(i, j) = 0.25d0 * (a(i - 1, j) + a(i + 1, j) + a(i, j - 1) + a(i, j + 1))
            end do
        end do
    end subroutine smooth
end module plane

program stencil
    use plane
    implicit none
    integer :: rows, columns, repeats, r
    real(8), allocatable :: a(:, :), b(:, :)
    real(8) :: start, finish
    character(16) :: text
    rows = argument(1, 3000)
    columns = argument(2, 3000)
    repeats = argument(3, 10)
    allocate (a(rows, columns), b(rows, columns))
    a = reshape([(real(mod(r, 100), 8), r = 1, rows * columns)], [rows, columns])
    b = a
    call cpu_time(start)
    do r = 1, repeats, 2
        call smooth(b, a, rows, columns)
        call smooth(a, b, rows, columns)
    end do
    call cpu_time(finish)
    print '("checksum ", es20.12)', sum(a)
    call get_environment_variable('EXAMPLE_TIME', text)
    if (text /= '') write (0, '("units ", i0, " seconds ", f0.6)') &
        int(rows - 2, 8) * (columns - 2) * ((repeats + 1) / 2 * 2), finish - start
contains
    integer function argument(i, preset)
        integer, intent(in) :: i, preset
        character(20) :: word
        argument = preset
        call get_command_argument(i, word)
        if (word /= '') read (word, *) argument
    end function argument
end program stencil
