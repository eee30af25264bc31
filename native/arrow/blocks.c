/* Batches of a megabyte come and go a hundred times a second, in different threads and never quite of one size.  In
 * malloc's heap every one that goes leaves a hole, small things get into the hole, and no batch fits in there any more: an
 * agent held half as much again as its records took.  Pages of their own leave none.  The kernel clears every new page,
 * so those that come back are kept for a while. */
#include "blocks.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LARGE = 64 << 10, KEPT_BYTES = 16 << 20, KEPT_BLOCKS = 128, PAGE = 4096 };

/* In front of a block. */
typedef struct {
  size_t pages; /* bytes of all its pages, this included; 0: it is malloc's */
  size_t unused; /* what follows is aligned as malloc aligns */
} head;

static struct {
  pthread_mutex_t lock;
  size_t count, bytes;
  head *all[KEPT_BLOCKS]; /* the one that came first in front */
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t in_pages(size_t size) { return (size + sizeof(head) + PAGE - 1) / PAGE * PAGE; }

/* Too much is what would be worth a block of its own. */
static bool fits(size_t pages, size_t wanted) { return pages >= wanted && pages - wanted <= wanted / 4; }

static head *without(size_t at) {
  head *gone = kept.all[at];
  kept.bytes -= gone->pages;
  kept.count--;
  memmove(&kept.all[at], &kept.all[at + 1], (kept.count - at) * sizeof(head *));
  return gone;
}

static head *take_kept(size_t pages) {
  head *found = NULL;
  pthread_mutex_lock(&kept.lock);
  for (size_t at = kept.count; at-- > 0 && !found;)
    if (fits(kept.all[at]->pages, pages)) found = without(at);
  pthread_mutex_unlock(&kept.lock);
  return found;
}

static void *new_pages(size_t pages) {
  head *made = take_kept(pages);
  if (made) return made + 1;
  made = mmap(NULL, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (made == MAP_FAILED) return NULL;
  *made = (head){.pages = pages};
  return made + 1;
}

void *block_new(size_t size) {
  if (size > SIZE_MAX / 2) return NULL;
  if (size >= LARGE) return new_pages(in_pages(size));
  head *made = malloc(sizeof(head) + size);
  if (!made) return NULL;
  *made = (head){0};
  return made + 1;
}

void block_free(void *block) {
  if (!block) return;
  head *gone = (head *)block - 1, *dropped[KEPT_BLOCKS];
  if (!gone->pages) {
    free(gone);
    return;
  }
  if (gone->pages > KEPT_BYTES / 2) {
    munmap(gone, gone->pages);
    return;
  }
  size_t many = 0;
  pthread_mutex_lock(&kept.lock);
  while (kept.count == KEPT_BLOCKS || kept.bytes + gone->pages > KEPT_BYTES) dropped[many++] = without(0);
  kept.all[kept.count++] = gone;
  kept.bytes += gone->pages;
  pthread_mutex_unlock(&kept.lock);
  while (many) {
    head *old = dropped[--many];
    munmap(old, old->pages);
  }
}
