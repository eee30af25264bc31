/* What is assigned: topic and partition, and where reading ends. */
#ifndef COHORT_SPANS_H
#define COHORT_SPANS_H

#include "columns.h"

typedef struct {
  char *name;
  name_column *column;
  int64_t partitions; /* how many spans are of this topic */
} topic;

typedef struct {
  topic *topic;
  int32_t partition;
  int64_t end;
  bool failed; /* a record can't be read: nothing more until it is assigned again */
} span;

/* Sorted by name and partition. */
typedef struct {
  span *all;
  size_t count, room;
} spans;

/* Make sure that there is room for `more`; the pointers that spans_find() gave are void after it. */
bool spans_reserve(spans *, size_t more);

/* Put a span in, or anew; room must have been made.  False when memory has run out. */
bool spans_put(spans *, const char *name, int32_t partition, int64_t end);

span *spans_find(const spans *, const char *name, int32_t partition);
void spans_remove(spans *, const char *name, int32_t partition);
void spans_free(spans *);

/* The topic's name for so many rows, shared by all batches; NULL when memory has run out. */
name_column *topic_column(topic *, int64_t rows);

#endif
