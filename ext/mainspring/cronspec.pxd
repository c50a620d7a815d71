"""A cron expression as bit sets, and the first matching wall clock minute: C, no Python object.

Wall minutes count from 1970-01-01T00:00 on a clock without a zone.  A month's matching days are one
32-bit word, made by shifts: (a) the weekday field times a word with a bit per week repeats it over
the month; (b) days, last day and nearest weekdays are a few more bits.  A month that the field
leaves out is skipped by its mask, so a rare day (a Monday 29 February) costs a step per year.

Source: H. Hinnant, "chrono-compatible low-level date algorithms", days_from_civil and
civil_from_days; crontab(5) for the two day fields.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from *:
    int __builtin_ctzll(unsigned long long) noexcept nogil

ctypedef struct Spec:
    uint64_t minutes        # bit i: minute i
    uint32_t hours
    uint32_t days           # bits 1..31
    uint32_t near_days      # bits 1..31: the weekday nearest to that day of its month
    uint64_t nth_weekdays   # bit (n - 1) * 7 + weekday, n from 1 to 5
    uint16_t months         # bits 1..12
    uint8_t weekdays        # bits 0..6, Sunday is 0
    uint8_t last_weekdays   # bits 0..6: the last such weekday of the month
    bint is_last_day
    bint is_last_workday
    bint is_either_day
    bint skips_gap          # nothing fires for a wall time that a gap leaves out
    bint takes_first        # in an overlap, the first pass fires
    bint takes_second

cdef inline int64_t NO_WALL() noexcept nogil:
    return (<int64_t>1) << 62

cdef inline int64_t floor_div(int64_t value, int64_t by) noexcept nogil:
    cdef int64_t quotient = value // by
    # C truncates; cdivision is on in this package's builds only where it is said to be.
    if quotient * by > value:
        quotient -= 1
    return quotient

cdef inline int64_t days_from_civil(int64_t year, int month) noexcept nogil:
    """Return the day number of the first of a month, 1970-01-01 being 0."""
    cdef int64_t y = year - (1 if month <= 2 else 0)
    cdef int64_t era = floor_div(y, 400)
    cdef int64_t year_of_era = y - era * 400
    cdef int64_t shifted = month - 3 if month > 2 else month + 9
    cdef int64_t day_of_year = (153 * shifted + 2) // 5
    cdef int64_t leap_days = year_of_era // 4 - year_of_era // 100
    return era * 146_097 + year_of_era * 365 + leap_days + day_of_year - 719_468

cdef inline int64_t year_of_day(int64_t day) noexcept nogil:
    """Return the year that a day number lies in."""
    cdef int64_t z = day + 719_468
    cdef int64_t era = floor_div(z, 146_097)
    cdef int64_t day_of_era = z - era * 146_097
    cdef int64_t year_of_era = (
        day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    cdef int64_t leap_days = year_of_era // 4 - year_of_era // 100
    cdef int64_t day_of_year = day_of_era - 365 * year_of_era - leap_days
    # March based: January and February belong to the next civil year.
    return year_of_era + era * 400 + (1 if day_of_year >= 306 else 0)

cdef inline bint is_leap(int64_t year) noexcept nogil:
    return year & 3 == 0 and (year % 100 != 0 or year & 15 == 0)

cdef inline int month_length(int64_t year, int month) noexcept nogil:
    if month == 2:
        return 29 if is_leap(year) else 28
    return 30 if month in (4, 6, 9, 11) else 31

cdef inline int nearest_workday(int day, int length, int first_weekday) noexcept nogil:
    """Return the Monday to Friday nearest to a day of the month; 0 if it has no such day."""
    cdef int weekday
    if day > length:
        return 0
    weekday = (first_weekday + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else 3
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day

cdef inline int last_workday(int length, int first_weekday) noexcept nogil:
    cdef int weekday = (first_weekday + length - 1) % 7
    if weekday == 6:
        return length - 1
    return length - 2 if weekday == 0 else length

cdef inline uint32_t days_of_month(
    const Spec* spec, int64_t year, int month, int first_weekday
) noexcept nogil:
    """Return the matching days of a month that the field has; bit i stands for the day i + 1."""
    cdef int length = month_length(year, month)
    cdef uint32_t in_month = (<uint32_t>1 << length) - 1 if length < 32 else 0xFFFFFFFF
    cdef uint64_t weeks = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28 | (<uint64_t>1 << 35)
    cdef uint32_t by_weekday = <uint32_t>((spec.weekdays * weeks) >> first_weekday)
    cdef uint32_t by_day = spec.days >> 1
    cdef uint64_t nth = spec.nth_weekdays
    cdef uint32_t near = spec.near_days
    cdef int bit, weekday, day
    while nth:
        bit = __builtin_ctzll(nth)
        nth &= nth - 1
        weekday = bit % 7
        day = (weekday - first_weekday + 7) % 7 + (bit // 7) * 7
        if day < length:
            by_weekday |= <uint32_t>1 << day
    nth = spec.last_weekdays
    while nth:
        weekday = __builtin_ctzll(nth)
        nth &= nth - 1
        day = (weekday - first_weekday + 7) % 7
        by_weekday |= <uint32_t>1 << (day + (length - 1 - day) // 7 * 7)
    while near:
        day = nearest_workday(__builtin_ctzll(near), length, first_weekday)
        near &= near - 1
        if day:
            by_day |= <uint32_t>1 << (day - 1)
    if spec.is_last_day:
        by_day |= <uint32_t>1 << (length - 1)
    if spec.is_last_workday:
        by_day |= <uint32_t>1 << (last_workday(length, first_weekday) - 1)
    if spec.is_either_day:
        return (by_weekday | by_day) & in_month
    return by_weekday & by_day & in_month

cdef inline int64_t next_day(const Spec* spec, int64_t day) noexcept nogil:
    """Return the first matching day at or after `day`; NO_WALL after the year 9999."""
    cdef int64_t year = year_of_day(day)
    cdef int month = 1
    cdef int64_t first
    cdef uint32_t later
    cdef uint16_t months
    # The month of `day`: at most a step back from an estimate that is never too small.
    first = day - days_from_civil(year, 1)
    month = <int>(first // 31) + 1
    if month < 12 and days_from_civil(year, month + 1) <= day:
        month += 1
    if spec.months >> month & 1:
        first = days_from_civil(year, month)
        later = days_of_month(spec, year, month, <int>((first + 4) % 7 + 7) % 7)
        later >>= day - first
        if later:
            return day + __builtin_ctzll(later)
    while year <= 9999:
        months = spec.months >> (month + 1)
        if months:
            month += 1 + __builtin_ctzll(months)
            first = days_from_civil(year, month)
        else:
            year += 1
            if year > 9999:
                break
            if spec.months == <uint32_t>1 << month:
                # The one month of the expression: a year on, without a division.
                first += 366 if is_leap(year - 1 if month <= 2 else year) else 365
            else:
                month = __builtin_ctzll(spec.months)
                first = days_from_civil(year, month)
        later = days_of_month(spec, year, month, <int>((first + 4) % 7 + 7) % 7)
        if later:
            return first + __builtin_ctzll(later)
    return NO_WALL()

cdef inline int64_t next_wall_min(const Spec* spec, int64_t from_min) noexcept nogil:
    """Return the first matching wall minute at or after `from_min`, or NO_WALL."""
    cdef int64_t day = floor_div(from_min, 1440)
    cdef int minute_of_day = <int>(from_min - day * 1440)
    cdef int hour = minute_of_day // 60
    cdef int minute = minute_of_day % 60
    cdef int64_t matching = next_day(spec, day)
    cdef uint32_t hours
    if matching == day:
        if spec.hours >> hour & 1 and spec.minutes >> minute:
            return day * 1440 + hour * 60 + minute + __builtin_ctzll(spec.minutes >> minute)
        hours = spec.hours >> (hour + 1)
        if hours:
            hour += 1 + __builtin_ctzll(hours)
            return day * 1440 + hour * 60 + __builtin_ctzll(spec.minutes)
        matching = next_day(spec, day + 1)
    if matching == NO_WALL():
        return NO_WALL()
    return (
        matching * 1440 + __builtin_ctzll(spec.hours) * 60 + __builtin_ctzll(spec.minutes)
    )
