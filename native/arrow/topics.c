/* A sorted array: it is looked at once per part of an answer. */
#include "topics.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_NAMES = 1024 };

/* The index of the first topic that doesn't come before this name. */
static size_t position(const topics *table, const char *name) {
  size_t low = 0, high = table->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (strcmp(table->all[middle]->name, name) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool make_room(topics *table) {
  if (table->count < table->room) return true;
  size_t room = 2 * table->room + 8;
  topic **moved = realloc(table->all, room * sizeof *moved);
  if (!moved) return false;
  table->all = moved;
  table->room = room;
  return true;
}

topic *topics_find(topics *table, const char *name) {
  size_t at = position(table, name);
  if (at < table->count && strcmp(table->all[at]->name, name) == 0) return table->all[at];
  topic *made = make_room(table) ? calloc(1, sizeof *made) : NULL;
  if (!made || !(made->name = strdup(name))) {
    free(made);
    return NULL;
  }
  memmove(table->all + at + 1, table->all + at, (table->count - at) * sizeof *table->all);
  table->count++;
  return table->all[at] = made;
}

void topics_free(topics *table) {
  for (size_t i = 0; i < table->count; i++) {
    name_column_drop(table->all[i]->column);
    free(table->all[i]->name);
    free(table->all[i]);
  }
  free(table->all);
  *table = (topics){0};
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
