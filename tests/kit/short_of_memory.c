/* Preloaded: the next few large blocks that this thread wants to grow don't grow. */
#include <stddef.h>

extern void *__libc_realloc(void *, size_t);

static __thread int left;

void fail_large(int times) { left = times; }

void *realloc(void *block, size_t size) {
  return size >= 4096 && left > 0 && left-- ? NULL : __libc_realloc(block, size);
}
