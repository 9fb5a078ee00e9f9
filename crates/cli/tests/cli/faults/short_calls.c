/* Preloaded, it lets calls that read and write do less than they were asked for, and be interrupted: what the system may do at any
 * time, and hardly ever does. What is done is real: the rest is left for the next call. SHORT_CALLS is the seed of its choices. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/uio.h>

static atomic_uint_fast64_t calls;

/* How many of `count` bytes this call does; none if it is interrupted. */
static size_t share(size_t count) {
  const char *seed = getenv("SHORT_CALLS");
  uint64_t x = atomic_fetch_add(&calls, 1) + 1 + (seed ? strtoull(seed, 0, 10) : 0) * 1000003;
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
  x ^= x >> 32;
  if (count == 0) return count;
  switch (x % 8) {
    case 0: return 0;
    case 1: return 1;
    case 2: return count;
    default: return 1 + (x >> 8) % count;
  }
}

#define NEXT(name) \
  static __typeof__(name) *next; \
  if (!next) next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

#define SHORT(count) \
  size_t some = share(count); \
  if (some == 0 && (count) != 0) { errno = EINTR; return -1; }

ssize_t read(int fd, void *buf, size_t count) { NEXT(read); SHORT(count); return next(fd, buf, some); }
ssize_t write(int fd, const void *buf, size_t count) { NEXT(write); SHORT(count); return next(fd, buf, some); }

extern ssize_t pread64(int, void *, size_t, off64_t);
ssize_t pread64(int fd, void *buf, size_t count, off64_t at) { NEXT(pread64); SHORT(count); return next(fd, buf, some, at); }

extern ssize_t pwrite64(int, const void *, size_t, off64_t);
ssize_t pwrite64(int fd, const void *buf, size_t count, off64_t at) { NEXT(pwrite64); SHORT(count); return next(fd, buf, some, at); }

ssize_t writev(int fd, const struct iovec *parts, int count) {
  /* Of several pieces, the first: that is less than all. */
  static ssize_t (*one)(int, const void *, size_t);
  if (!one) one = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
  if (count == 0) return 0;
  SHORT(parts[0].iov_len);
  return one(fd, parts[0].iov_base, some);
}

extern ssize_t copy_file_range(int, off64_t *, int, off64_t *, size_t, unsigned);
ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *to_at, size_t count, unsigned flags) {
  NEXT(copy_file_range);
  /* The system doesn't interrupt it once a file is open: it does less. */
  size_t some = share(count);
  if (some == 0) some = count;
  return next(from, at, to, to_at, some, flags);
}
