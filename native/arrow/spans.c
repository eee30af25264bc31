/* A sorted array: it is looked at once per run of records, and changed once per assignment. */
#include "spans.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_NAMES = 1024 };

/* The index of the first span that doesn't come before this one. */
static size_t position(const spans *table, const char *name, int32_t partition) {
  size_t low = 0, high = table->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const span *at = &table->all[middle];
    int order = strcmp(at->topic->name, name);
    if (order < 0 || (order == 0 && at->partition < partition))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool is_at(const spans *table, size_t at, const char *name, int32_t partition) {
  return at < table->count && table->all[at].partition == partition && strcmp(table->all[at].topic->name, name) == 0;
}

/* The topic as its neighbours in the sorted array have it, or a new one. */
static topic *topic_at(const spans *table, size_t at, const char *name) {
  if (at < table->count && strcmp(table->all[at].topic->name, name) == 0) return table->all[at].topic;
  if (at > 0 && strcmp(table->all[at - 1].topic->name, name) == 0) return table->all[at - 1].topic;
  topic *made = calloc(1, sizeof *made);
  if (made && !(made->name = strdup(name))) {
    free(made);
    return NULL;
  }
  return made;
}

static void topic_drop(topic *dropped) {
  if (--dropped->partitions > 0) return;
  name_column_drop(dropped->column);
  free(dropped->name);
  free(dropped);
}

bool spans_reserve(spans *table, size_t more) {
  size_t needed = table->count + more;
  if (needed <= table->room) return true;
  span *moved = realloc(table->all, 2 * needed * sizeof *moved);
  if (!moved) return false;
  table->all = moved;
  table->room = 2 * needed;
  return true;
}

bool spans_put(spans *table, const char *name, int32_t partition, int64_t end) {
  size_t at = position(table, name, partition);
  if (!is_at(table, at, name, partition)) {
    topic *of = topic_at(table, at, name);
    if (!of) return false;
    of->partitions++;
    memmove(table->all + at + 1, table->all + at, (table->count - at) * sizeof *table->all);
    table->count++;
    table->all[at].topic = of;
  }
  table->all[at] = (span){.topic = table->all[at].topic, .partition = partition, .end = end};
  return true;
}

span *spans_find(const spans *table, const char *name, int32_t partition) {
  size_t at = position(table, name, partition);
  return is_at(table, at, name, partition) ? &table->all[at] : NULL;
}

void spans_remove(spans *table, const char *name, int32_t partition) {
  size_t at = position(table, name, partition);
  if (!is_at(table, at, name, partition)) return;
  topic_drop(table->all[at].topic);
  table->count--;
  memmove(table->all + at, table->all + at + 1, (table->count - at) * sizeof *table->all);
}

void spans_free(spans *table) {
  for (size_t i = 0; i < table->count; i++) topic_drop(table->all[i].topic);
  free(table->all);
  *table = (spans){0};
}

name_column *topic_column(topic *of, int64_t rows) {
  if (of->column && of->column->rows >= rows) return of->column;
  int64_t room = of->column ? of->column->rows : FIRST_NAMES;
  while (room < rows) room *= 2;
  name_column *made = name_column_new(of->name, room);
  if (!made) return NULL;
  name_column_drop(of->column); /* batches that show the old one hold it themselves */
  of->column = made;
  return made;
}
