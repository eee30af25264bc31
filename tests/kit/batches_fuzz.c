/* The reader of record batches for tests/kit/fuzz.h.
 *
 * What is compressed is decompressed by Python (Arrow's codecs), so here the bytes of a compressed batch are its records
 * already, and come as Python brings them: at one go, or in pieces that end anywhere.  Lengths of batches that can't be, those
 * of records, and checksums are mended whenever an input has been changed: else nothing would get any further than these. */
#include "fuzz.h"

#include "arrow/columns.h"
#include "kafka_batches/batches.h"
#include "kafka_batches/crc32c.h"

enum { BATCH_LENGTH = 8, CRC = 17, ATTRIBUTES = 21, HEADER = 61, FRAME = 12, CODEC_BITS = 7, MOST_STEPS = 100000 };

typedef struct {
  int64_t fields, mends, position, stop, high_watermark, largest, rows, bytes, piece, count;
  selection selected;
  aborted *transactions;
} plan;

static plan plans[MOST_PLANS];

static void read_plan(FILE *file, size_t at) {
  plan *made = &plans[at];
  int64_t *numbers[] = {&made->fields, &made->mends, &made->position, &made->stop, &made->high_watermark,
                        &made->largest, &made->rows, &made->bytes, &made->piece, &made->count};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) *numbers[i] = number(file);
  char *fields = block(file, (size_t)made->fields);
  if (!selection_read(&made->selected, fields, (size_t)made->fields)) abort();
  free(fields);
  made->transactions = block(file, (size_t)made->count * sizeof *made->transactions);
}

/* --- what is mended ------------------------------------------------------------------------------------ */

static uint32_t big32(const uint8_t *at) {
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void put32(uint8_t *at, uint32_t number) {
  for (int i = 3; i >= 0; i--, number >>= 8) at[i] = (uint8_t)number;
}

/* A number of one to ten bytes; false where none is. */
static bool varint(const uint8_t **at, const uint8_t *end, int64_t *found) {
  uint64_t raw = 0;
  for (int shift = 0; *at < end && shift < 64; shift += 7) {
    uint8_t byte = *(*at)++;
    raw |= (uint64_t)(byte & 0x7F) << shift;
    if (byte < 0x80) {
      *found = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
      return true;
    }
  }
  return false;
}

static bool passes(const uint8_t **at, const uint8_t *end) {
  int64_t size;
  if (!varint(at, end, &size) || size < -1 || size > end - *at) return false;
  *at += size < 0 ? 0 : size;
  return true;
}

/* Where the record ends whose body begins here, by its fields; NULL where they can't be. */
static const uint8_t *end_of(const uint8_t *at, const uint8_t *end) {
  int64_t time, offset, headers;
  if (at++ >= end || !varint(&at, end, &time) || !varint(&at, end, &offset)) return NULL;
  if (!passes(&at, end) || !passes(&at, end) || !varint(&at, end, &headers)) return NULL;
  for (; headers > 0; headers--)
    if (!passes(&at, end) || !passes(&at, end)) return NULL;
  return at;
}

/* Lengths of records, as far as they are written in as many bytes. */
static void mend_records(uint8_t *at, const uint8_t *end) {
  for (;;) {
    const uint8_t *body = at, *after;
    int64_t said;
    if (!varint(&body, end, &said) || !(after = end_of(body, end))) return;
    uint64_t raw = (uint64_t)(after - body) << 1;
    size_t width = (size_t)(body - at);
    if (width < 9 && raw >> 7 * width) return;
    for (size_t i = 0; i < width; i++, raw >>= 7) at[i] = (uint8_t)((raw & 0x7F) | (i + 1 < width ? 0x80 : 0));
    at += after - at;
  }
}

static void mend(input *given) {
  const plan *of = &plans[given->bytes[0] % plan_count];
  uint8_t *at = given->bytes + 1;
  size_t left = of->mends ? given->size - 1 : 0;
  while (left >= HEADER) {
    uint32_t length = big32(at + BATCH_LENGTH);
    if (length < HEADER - FRAME || length > left - FRAME) {
      length = (uint32_t)(left - FRAME);
      if (of->mends > 1) put32(at + BATCH_LENGTH, length);
    }
    size_t size = length + FRAME;
    if (of->mends > 1) mend_records(at + HEADER, at + size);
    put32(at + CRC, crc32c(at + ATTRIBUTES, size - ATTRIBUTES));
    at += size;
    left -= size;
  }
}

/* --- what is read -------------------------------------------------------------------------------------- */

typedef struct {
  const uint8_t *left, *end; /* of the batch that is being unpacked */
  uint8_t *window;
} source;

/* As decoder.c does it: what is left, then so much more; of exactly that size, so that no byte behind it is anybody's. */
static void feed(const plan *of, batches *all, source *from, batches_state state) {
  batch *now = &all->now;
  if (state == BATCHES_COMPRESSED) {
    from->left = now->record;
    from->end = now->end;
    if (!of->piece) {
      batches_unpacked(all, from->left, (size_t)(from->end - from->left), false);
      return;
    }
  }
  size_t left = state == BATCHES_COMPRESSED ? 0 : (size_t)(now->end - now->record);
  size_t room = now->wanted > (size_t)of->piece ? now->wanted : (size_t)of->piece;
  size_t asked = room - left, there = (size_t)(from->end - from->left), size = asked < there ? asked : there;
  if (left > room || !asked) abort(); /* nothing would ever come of it */
  long was = shortage(-1);
  uint8_t *window = must(malloc(left + size ? left + size : 1));
  shortage(was);
  if (left) memcpy(window, now->record, left);
  memcpy(window + left, from->left, size);
  from->left += size;
  free(from->window);
  from->window = window;
  batches_unpacked(all, window, left + size, size == asked);
}

static void check_rows(const plan *of, const columns *rows, int64_t from, int64_t to) {
  if (rows->rows > of->rows) abort();
  int64_t last = from - 1;
  for (size_t i = 0; i < rows->runs.count; i++) {
    const offset_run *run = &rows->runs.all[i];
    int64_t after = i + 1 < rows->runs.count ? run[1].row : rows->rows;
    if (run->offset <= last || after <= run->row) abort();
    last = run->offset + (after - run->row) - 1;
  }
  if (rows->rows && (last >= to || last >= of->stop)) abort();
}

/* False when memory has run out; the name is dropped by whoever holds it last. */
static bool export(columns *rows) {
  struct ArrowArray array;
  bool named = rows->selected.has[FIELD_TOPIC];
  name_column *name = named ? name_column_new("topic", rows->rows) : NULL;
  int64_t count = rows->rows;
  bool whole = (!named || name) && columns_export(rows, 7, name, &array);
  if (whole) {
    if (array.length != count || rows->rows) abort();
    array.release(&array);
  }
  name_column_drop(name);
  return whole;
}

/* One call: false when there is nothing more after it. */
static bool take(const plan *of, batches *all, columns *rows, source *from) {
  batches_fault fault = {0}, again = {0};
  batches_state state;
  int64_t before = all->position;
  for (int steps = 0;; steps++) {
    state = batches_step(all, rows, of->rows, of->bytes, &fault);
    if (steps > MOST_STEPS || all->position < before) abort();
    if (state != BATCHES_COMPRESSED && state != BATCHES_HUNGRY) break;
    feed(of, all, from, state);
  }
  if (state == BATCHES_GOING || (state == BATCHES_DAMAGED && !fault.why)) abort();
  if (state == BATCHES_MEMORY) {
    if (!failed) abort();
    columns_free(rows);
    return false;
  }
  check_rows(of, rows, before, all->position);
  if (rows->rows) {
    if (!export(rows)) columns_free(rows);
    return true;
  }
  columns_clear(rows);
  if (all->position > before) return true; /* passed over, or up to what can't be read */
  if (state == BATCHES_FULL) abort();
  if (state == BATCHES_DONE) return false;
  if (batches_step(all, rows, of->rows, of->bytes, &again) != state && !failed) abort();
  columns_clear(rows);
  return false;
}

static void read_all(const input *given) {
  const plan *of = &plans[given->bytes[0] % plan_count];
  long was = shortage(-1);
  uint8_t *record = record_of(given);
  size_t size = (size_t)of->count * sizeof(aborted);
  aborted *transactions = must(malloc(size + 1));
  memcpy(transactions, of->transactions, size);
  shortage(was);
  batches all = {.at = record, .end = record + given->size - 1, .position = of->position, .stop = of->stop,
                 .high_watermark = of->high_watermark, .largest = of->largest, .transactions = transactions,
                 .count = (size_t)of->count};
  columns rows = {.selected = of->selected};
  source from = {0};
  int32_t epoch;
  if (batches_ahead(&all, &epoch) < of->position) abort();
  if (crc32c(record, given->size - 1) != crc32c_by_tables(record, given->size - 1)) abort();
  while (take(of, &all, &rows, &from)) continue;
  columns_free(&rows);
  free(from.window);
  free(transactions);
  free(record);
}

static void run(const input *given) { read_all(given); }

static void run_short(const input *given) { read_all(given); }

static uint8_t odd_byte(void) {
  static const uint8_t odd[] = {0, 1, 2, 3, 4, 8, 16, 32, 48, 0x7F, 0x80, 0xFF, 0xFE, 0x40, 61};
  return odd[chance(sizeof odd)];
}
