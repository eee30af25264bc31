/* Preloaded: the time of day is off by the nanoseconds that the file COHORT_CHAOS_CLOCK holds, as if somebody had set the clock.

   What waits until a time of day waits until the kernel's own; the monotonic clock is the kernel's throughout. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define BILLION 1000000000LL

static const int64_t none;
static const volatile int64_t *offset_ns = &none;

__attribute__((constructor)) static void find_clock(void) {
  const char *path = getenv("COHORT_CHAOS_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *found = mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (found != MAP_FAILED) offset_ns = found;
}

/* The newest version of a symbol: the first that dlsym finds of pthread_cond_timedwait is that of another structure. */
static void *next(const char *name) {
  void *found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
  return found ? found : dlsym(RTLD_NEXT, name);
}

#define REAL(name) \
  static __typeof__(&name) real; \
  if (!real) real = (__typeof__(&name))next(#name)

static void shift(struct timespec *at, int64_t by_ns) {
  int64_t nanoseconds = at->tv_nsec + by_ns % BILLION;
  at->tv_sec += by_ns / BILLION + (nanoseconds >= BILLION) - (nanoseconds < 0);
  at->tv_nsec = (nanoseconds + BILLION) % BILLION;
}

static int of_the_day(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  REAL(clock_gettime);
  int status = real(clock, now);
  if (status == 0 && of_the_day(clock)) shift(now, *offset_ns);
  return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  (void)zone;
  struct timespec at;
  clock_gettime(CLOCK_REALTIME, &at);
  *now = (struct timeval){at.tv_sec, at.tv_nsec / 1000};
  return 0;
}

time_t time(time_t *told) {
  struct timespec at;
  clock_gettime(CLOCK_REALTIME, &at);
  if (told) *told = at.tv_sec;
  return at.tv_sec;
}

int timespec_get(struct timespec *now, int base) { return clock_gettime(CLOCK_REALTIME, now) == 0 ? base : 0; }

/* A deadline by the kernel's clock: those of the monotonic clock are small, as it begins with the machine. */
static const struct timespec *kernels(const struct timespec *at, struct timespec *kept) {
  if (at == NULL || at->tv_sec < BILLION || at->tv_sec > 1000 * BILLION) return at;
  *kept = *at;
  shift(kept, -*offset_ns);
  return kept;
}

int pthread_cond_timedwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m, const struct timespec *restrict at) {
  REAL(pthread_cond_timedwait);
  struct timespec kept;
  return real(c, m, kernels(at, &kept));
}

int pthread_cond_clockwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m, clockid_t clock,
                           const struct timespec *restrict at) {
  REAL(pthread_cond_clockwait);
  struct timespec kept;
  return real(c, m, clock, kernels(at, &kept));
}

int cnd_timedwait(cnd_t *restrict c, mtx_t *restrict m, const struct timespec *restrict at) { /* librdkafka's */
  REAL(cnd_timedwait);
  struct timespec kept;
  return real(c, m, kernels(at, &kept));
}

int mtx_timedlock(mtx_t *restrict mutex, const struct timespec *restrict at) {
  REAL(mtx_timedlock);
  struct timespec kept;
  return real(mutex, kernels(at, &kept));
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict at) {
  REAL(sem_timedwait);
  struct timespec kept;
  return real(semaphore, kernels(at, &kept));
}

int sem_clockwait(sem_t *restrict semaphore, clockid_t clock, const struct timespec *restrict at) {
  REAL(sem_clockwait);
  struct timespec kept;
  return real(semaphore, clock, kernels(at, &kept));
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict at) {
  REAL(pthread_mutex_timedlock);
  struct timespec kept;
  return real(mutex, kernels(at, &kept));
}

/* gRPC waits by futexes of its own. */
long syscall(long number, ...) {
  REAL(syscall);
  long arguments[6];
  va_list rest;
  va_start(rest, number);
  for (int i = 0; i < 6; i++) arguments[i] = va_arg(rest, long);
  va_end(rest);
  struct timespec kept;
  if (number == SYS_futex && (arguments[1] & FUTEX_CLOCK_REALTIME))
    arguments[3] = (long)kernels((const struct timespec *)arguments[3], &kept);
  long status = real(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
  if (number == SYS_clock_gettime && status == 0 && of_the_day((clockid_t)arguments[0]))
    shift((struct timespec *)arguments[1], *offset_ns);
  return status;
}
