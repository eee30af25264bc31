/* The topics that were ever read here, with the column of each one's name. */
#ifndef COHORT_TOPICS_H
#define COHORT_TOPICS_H

#include "columns.h"

typedef struct {
  char *name;
  name_column *column;
} topic;

/* Sorted by name. */
typedef struct {
  topic **all; /* each stays where it is until topics_free() */
  size_t count, room;
} topics;

/* The topic of this name, made if it is new; NULL when memory has run out. */
topic *topics_find(topics *, const char *name);
void topics_free(topics *);

/* The topic's name for so many rows, shared by all batches; NULL when memory has run out. */
name_column *topic_column(topic *, int64_t rows);

#endif
