/* A wall clock that a test moves: preloaded, it adds the microseconds in a shared file to the time.
 *
 * Only the wall clock; the monotonic one is left alone, as a step of the clock leaves it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile const int64_t *shift_us;
static int (*real_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("MAINSPRING_TEST_CLOCK_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    real_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    if (file >= 0) {
        void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
        if (page != MAP_FAILED) shift_us = page;
    }
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    int answer;
    if (!real_gettime)
        real_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    answer = real_gettime(clock, at);
    if (answer == 0 && shift_us && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t ns = at->tv_nsec + *shift_us % 1000000 * 1000;
        at->tv_sec += *shift_us / 1000000;
        if (ns < 0) { ns += 1000000000; at->tv_sec -= 1; }
        if (ns >= 1000000000) { ns -= 1000000000; at->tv_sec += 1; }
        at->tv_nsec = ns;
    }
    return answer;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
