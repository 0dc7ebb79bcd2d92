/* Shifts the wall clock of the process that it is loaded into by the number of µs at the start of the file
   that REDISTEST_CLOCK names. It is mapped, so that the clock moves as soon as the file is written. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile long long *shift;

__attribute__((constructor)) static void begin(void) {
	const char *name = getenv("REDISTEST_CLOCK");
	int f = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
	if (f < 0)
		return;
	void *p = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, f, 0);
	close(f);
	if (p != MAP_FAILED)
		shift = p;
}

static void add(long long *seconds, long long *rest, long long a_second) {
	if (!shift)
		return;
	long long all = *rest + *shift % 1000000 * (a_second / 1000000);
	*seconds += *shift / 1000000;
	if (all < 0)
		all += a_second, --*seconds;
	if (all >= a_second)
		all -= a_second, ++*seconds;
	*rest = all;
}

static int is_wall(clockid_t id) { return id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE; }

int clock_gettime(clockid_t id, struct timespec *t) {
	static int (*real)(clockid_t, struct timespec *);
	if (!real)
		real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	int failed = real(id, t);
	if (!failed && is_wall(id)) {
		long long s = t->tv_sec, ns = t->tv_nsec;
		add(&s, &ns, 1000000000);
		t->tv_sec = s, t->tv_nsec = ns;
	}
	return failed;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
	static int (*real)(struct timeval *, void *);
	if (!real)
		real = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
	int failed = real(t, zone);
	if (!failed && t) {
		long long s = t->tv_sec, us = t->tv_usec;
		add(&s, &us, 1000000);
		t->tv_sec = s, t->tv_usec = us;
	}
	return failed;
}

time_t time(time_t *at) {
	struct timeval t;
	gettimeofday(&t, NULL);
	if (at)
		*at = t.tv_sec;
	return t.tv_sec;
}
