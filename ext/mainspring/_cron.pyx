"""Next occurrences of cron expressions in their zones, without a Python object per question.

How it is fast: (a) fields are bit sets, and the next minute, hour, day and month are each one shift
and one count of trailing zeros (`cronspec.pxd`); (b) a zone is a table of segments of constant
offset, found by the year of the instant, so that resolving a wall time takes two or three
comparisons; (c) a batch runs without the GIL over int64 arrays.

One walk answers all options.  It goes from segment to segment and keeps two numbers: how far the
clock had been read when the segment began (a wall time below that is a second pass), and from where
on its wall times are read again (below that they are a first pass).  A wall time that no segment
reads lies in a gap and fires where the next segment begins.  So `dst_gap` and `dst_overlap` are
questions about these two numbers, and an interval-like expression is the one that skips gaps and
takes both passes.

A zone's table holds the years it was asked for; a year that is missing ends the batch with a note
of which one, and the face adds it.  The calendar and every zone's rule repeat after 400 years, so
years from 2500 on are looked up 400, 800, ... years before.

Invariants: segments of a year are in order, touch each other and cover the year; nothing is
written while a batch runs, except the answers.

Not here: the text of expressions, where zones come from, `@every` and one-offs (`mainspring.cron`).

Source: crontab(5); RFC 8536; PEP 495 for gaps and overlaps.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

from mainspring.cronmemo cimport MemoTable, Remembered, forget_all, recall, remember, set_of
from mainspring.cronspec cimport (
    NO_WALL, Spec, floor_div, next_wall_min, year_of_day,
)

cdef extern from *:
    """
    #define publish_segments(place, value) __atomic_store_n((place), (value), __ATOMIC_RELEASE)
    #define published_segments(place) __atomic_load_n((place), __ATOMIC_ACQUIRE)
    """
    void publish_segments(void** place, void* value) noexcept nogil
    void* published_segments(void** place) noexcept nogil

cdef int64_t US_PER_MIN = 60_000_000
cdef int64_t US_PER_DAY = 86_400_000_000
cdef int64_t CYCLE_US = 146_097 * US_PER_DAY  # 400 years, a whole number of weeks
cdef int FIRST_YEAR = 1969
cdef int LAST_YEAR = 2499  # every explicit transition of tzdata lies well before 2100
cdef int64_t BEGINNING_US = -365 * US_PER_DAY  # of 1969
cdef int64_t HORIZON_US = (<int64_t>253_402_300_800) * 1_000_000 - 1 - 2 * US_PER_DAY
cdef int64_t SEARCH_US = 50 * 366 * US_PER_DAY
cdef enum:
    YEARS = 531

cdef uint64_t last_serial = 0  # of a CronSpec; raised under the GIL, never used again


cdef struct Segment:
    int64_t start_us
    int64_t end_us
    int64_t offset_us


cdef struct Table:
    Segment* years[YEARS]  # NULL where it was not asked for; never moved once it is there
    int32_t counts[YEARS]


cdef struct Asked:
    const Spec* spec
    const Table* table
    uint64_t serial


cdef class ZoneTable:
    """Segments of one zone, by year.  Years are added under the GIL and read without it."""

    cdef Table table

    def __cinit__(self):
        cdef int i
        for i in range(YEARS):
            self.table.years[i] = NULL
            self.table.counts[i] = 0

    def __dealloc__(self):
        cdef int i
        for i in range(YEARS):
            free(self.table.years[i])

    def put_year(self, int year, list segments not None):
        """Add a year, 1969 to 2499, as (start_us, end_us, offset_us) in order, at least one."""
        cdef Segment* made
        cdef int place = year - FIRST_YEAR
        if not FIRST_YEAR <= year <= LAST_YEAR:
            raise ValueError(f"year {year} is not in {FIRST_YEAR}..{LAST_YEAR}")
        if not segments:
            raise ValueError(f"year {year} has no segments")
        if self.table.years[place] != NULL:
            return
        made = <Segment*>malloc(len(segments) * sizeof(Segment))
        if made == NULL:
            raise MemoryError()
        for i, (start_us, end_us, offset_us) in enumerate(segments):
            made[i] = Segment(start_us, end_us, offset_us)
        self.table.counts[place] = <int32_t>len(segments)
        publish_segments(<void**>&self.table.years[place], made)


cdef class CronSpec:
    """One expression in one zone, ready to be asked."""

    cdef Spec spec
    cdef uint64_t serial
    cdef readonly ZoneTable zone

    def __cinit__(self):
        global last_serial
        last_serial += 1
        self.serial = last_serial

    def __init__(
        self,
        ZoneTable zone not None,
        *,
        minutes,
        hours,
        days,
        months,
        weekdays,
        near_days=0,
        nth_weekdays=0,
        last_weekdays=0,
        bint is_last_day=False,
        bint is_last_workday=False,
        bint is_either_day=False,
        bint skips_gap=False,
        bint takes_first=True,
        bint takes_second=False,
    ):
        if not (minutes and hours and months) or minutes >> 60 or hours >> 24 or months >> 13:
            raise ValueError("minutes, hours and months are sets that are not empty")
        if months & 1 or days >> 32 or near_days >> 32 or weekdays >> 7 or nth_weekdays >> 35:
            raise ValueError("a set has a value that its field does not have")
        if not (takes_first or takes_second):
            raise ValueError("at least one pass of an overlap fires")
        self.zone = zone
        self.spec.minutes = minutes
        self.spec.hours = hours
        self.spec.days = days & ~1
        self.spec.months = months
        self.spec.weekdays = weekdays
        self.spec.near_days = near_days & ~1
        self.spec.nth_weekdays = nth_weekdays
        self.spec.last_weekdays = last_weekdays
        self.spec.is_last_day = is_last_day
        self.spec.is_last_workday = is_last_workday
        self.spec.is_either_day = is_either_day
        self.spec.skips_gap = skips_gap
        self.spec.takes_first = takes_first
        self.spec.takes_second = takes_second


cdef class Answers:
    """Answers remembered between batches, a bounded number of them; see `cronmemo.pxd`.

    One batch at a time uses it; a second one meanwhile, in another thread, goes without.

    Parameters
    ----------
    answers_max
        2 to 2**30, rounded down to a power of two; 24 bytes each.
    """

    cdef MemoTable table
    cdef bint is_in_use

    def __cinit__(self, Py_ssize_t answers_max):
        cdef uint64_t sets = 1
        if not 2 <= answers_max <= 1 << 30:
            raise ValueError(f"answers_max {answers_max} is not in 2..{1 << 30}")
        while 4 * sets <= <uint64_t>answers_max:
            sets *= 2
        self.table.set_mask = sets - 1
        self.table.places = <Remembered*>calloc(2 * sets, sizeof(Remembered))
        if self.table.places == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.table.places)

    def __len__(self):
        """Count what is remembered; walks through all places."""
        cdef Py_ssize_t found = 0
        cdef uint64_t i
        for i in range(2 * (self.table.set_mask + 1)):
            found += self.table.places[i].serial != 0
        return found

    def clear(self):
        """Forget everything; nothing of it is in use, or ValueError."""
        if self.is_in_use:
            raise ValueError("a batch is using these answers")
        forget_all(&self.table)


def next_wall(CronSpec cron not None, int64_t from_min):
    """Return the first matching wall minute at or after `from_min`, or None.  For tests."""
    cdef int64_t found = next_wall_min(&cron.spec, from_min)
    return None if found == NO_WALL() else found


def next_batch(
    list crons not None,
    const int32_t[::1] handles not None,
    const int64_t[::1] after_us not None,
    int64_t[::1] next_us not None,
    Py_ssize_t first,
    Answers answers=None,
):
    """Answer questions `first` and following; see `mainspring.cron.kernel`.

    Parameters
    ----------
    crons
        Expressions; a handle is a place in it.
    handles, after_us
        The questions.
    next_us
        Out: the first occurrence strictly later, INT64_MAX for none.
    answers
        In and out: looked at first, and told what was computed.

    Returns
    -------
    done
        How many are answered, from the beginning.
    year
        The year that the zone of question `done` lacks; 0 if all are answered.
    """
    cdef Py_ssize_t count = handles.shape[0]
    cdef Py_ssize_t i = first
    cdef Py_ssize_t n = len(crons)
    cdef int64_t missing = 0
    cdef const Asked* asked
    cdef MemoTable* memo = NULL
    cdef Remembered* places
    cdef Asked* made
    cdef CronSpec cron
    if after_us.shape[0] != count or next_us.shape[0] != count:
        raise ValueError("handles, after_us and next_us are equally long")
    made = <Asked*>malloc(max(1, n) * sizeof(Asked))
    if made == NULL:
        raise MemoryError()
    try:
        for place in range(n):
            cron = crons[place]
            made[place] = Asked(&cron.spec, &cron.zone.table, cron.serial)
        if answers is not None and not answers.is_in_use:
            answers.is_in_use = True
            memo = &answers.table
        with nogil:
            while i < count:
                if handles[i] < 0 or handles[i] >= n:
                    break
                asked = &made[handles[i]]
                if memo == NULL:
                    next_us[i] = _next(asked.spec, asked.table, after_us[i], &missing)
                    if missing:
                        break
                else:
                    places = set_of(memo, asked.serial, after_us[i])
                    if not recall(places, asked.serial, after_us[i], &next_us[i]):
                        next_us[i] = _next(asked.spec, asked.table, after_us[i], &missing)
                        if missing:
                            break
                        remember(places, asked.serial, after_us[i], next_us[i])
                i += 1
    finally:
        if memo != NULL:
            answers.is_in_use = False
        free(made)
    if i < count and not missing:
        raise ValueError(f"handle {handles[i]} is none of {n} expressions")
    return i, missing


def next_one(CronSpec cron not None, int64_t after_us):
    """Return (first occurrence strictly later, 0), or (0, year that the zone's table lacks)."""
    cdef int64_t missing = 0
    cdef int64_t answer = _next(&cron.spec, &cron.zone.table, after_us, &missing)
    return answer, missing


cdef inline bint _segment_at(
    const Table* table, int64_t instant_us, Segment* found, int64_t* missing
) noexcept nogil:
    """Find the segment of an instant; False, and the year, where the table lacks it."""
    cdef int64_t year = year_of_day(floor_div(instant_us, US_PER_DAY))
    cdef int64_t cycles = 0
    cdef const Segment* candidate
    cdef const Segment* last
    if year > LAST_YEAR:
        cycles = (year - LAST_YEAR + 399) // 400
        year -= 400 * cycles
        instant_us -= cycles * CYCLE_US
    if year < FIRST_YEAR:
        year = FIRST_YEAR
    candidate = <const Segment*>published_segments(<void**>&table.years[year - FIRST_YEAR])
    if candidate == NULL:
        missing[0] = year
        return False
    last = candidate + table.counts[year - FIRST_YEAR] - 1
    while candidate < last and instant_us >= candidate.end_us:
        candidate += 1
    found[0] = candidate[0]
    found.start_us += cycles * CYCLE_US
    found.end_us += cycles * CYCLE_US
    return True


cdef inline int64_t _minute_from(int64_t wall_us) noexcept nogil:
    """Return the first whole minute at or after a wall time."""
    return -floor_div(-wall_us, US_PER_MIN)


cdef int64_t _next(
    const Spec* spec, const Table* table, int64_t after_us, int64_t* missing
) noexcept nogil:
    """Return the first occurrence strictly later than `after_us`, INT64_MAX for none."""
    cdef int64_t from_us = max(after_us, -1) + 1
    cdef int64_t give_up_us
    cdef int64_t read_us, begin_us, until_us, low_us, high_us, wall_us
    cdef Segment segment, other
    if after_us >= HORIZON_US:
        return INT64_MAX
    give_up_us = min(HORIZON_US, from_us + SEARCH_US)
    while from_us <= give_up_us:
        if not _segment_at(table, from_us, &segment, missing):
            return 0
        begin_us = segment.start_us + segment.offset_us
        # How far the clock had been read when this segment began: a day back is far enough.
        read_us = begin_us
        other.start_us = segment.start_us
        while other.start_us > max(segment.start_us - US_PER_DAY, BEGINNING_US):
            if not _segment_at(table, other.start_us - 1, &other, missing):
                return 0
            if other.end_us + other.offset_us > read_us or other.end_us == segment.start_us:
                read_us = other.end_us + other.offset_us
        if from_us == segment.start_us and read_us < begin_us and not spec.skips_gap:
            wall_us = next_wall_min(spec, _minute_from(read_us))
            if wall_us == NO_WALL():
                return INT64_MAX
            if wall_us * US_PER_MIN < begin_us:
                return from_us if from_us <= HORIZON_US else INT64_MAX
        low_us = from_us + segment.offset_us
        if not spec.takes_second:
            low_us = max(low_us, read_us)
        until_us = segment.end_us + segment.offset_us
        if spec.takes_second:
            # Wall times that a later segment within a day reads again are a first pass here.
            other.end_us = segment.end_us
            while other.end_us < segment.end_us + US_PER_DAY and other.end_us <= HORIZON_US:
                if not _segment_at(table, other.end_us, &other, missing):
                    return 0
                until_us = min(until_us, other.start_us + other.offset_us)
        high_us = segment.end_us + segment.offset_us if spec.takes_first else until_us
        wall_us = next_wall_min(spec, _minute_from(low_us))
        if wall_us == NO_WALL():
            return INT64_MAX
        wall_us *= US_PER_MIN
        if wall_us < high_us:
            from_us = wall_us - segment.offset_us
            return from_us if from_us <= HORIZON_US else INT64_MAX
        from_us = segment.end_us
        if until_us == segment.end_us + segment.offset_us:
            # Nothing is read again soon, and no clock is a whole day ahead of UTC: before this the
            # wall time is not read.
            from_us = max(from_us, wall_us - US_PER_DAY)
    return INT64_MAX
