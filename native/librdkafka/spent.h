/* Messages that have been copied, on their way back to the thread that made them.  Nothing here knows Python.
 *
 * A broker's thread allocates its messages; when another thread frees them both want the lock of one heap, and each
 * wait for it costs two switches: tens of thousands a second, half of what a fast drain costs.  So they are kept until
 * that broker's thread comes by with its next response, and freed there. */
#ifndef COHORT_SPENT_H
#define COHORT_SPENT_H

#include <pthread.h>

#include "kafka.h"

/* Of one broker. */
typedef struct {
  int32_t broker;
  kafka_message **all;
  size_t count, room;
} spent_pile;

typedef struct {
  pthread_mutex_t lock;
  spent_pile *piles;
  size_t count;
  int64_t weight; /* bytes of memory, those of large messages more than once */
} spent;

void spent_init(spent *);
void spent_free(spent *);

/* Let a client that is made with these settings come by; one that can't be told to leaves it all to the limit. */
void spent_listen(spent *, rd_kafka_conf_t *);

/* Give back `count` messages, in one thread; beyond a weight of `limit` all that has gathered is freed here. */
void spent_give(spent *, kafka_message **messages, size_t count, int64_t limit);

/* Free all that has gathered: nobody may come by for a while. */
void spent_clear(spent *);

#endif
