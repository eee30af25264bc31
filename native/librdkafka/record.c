/* One record into the columns. */
#include "drain.h"

#include <string.h>

#include "arrow/utf8.h"

enum { MICROSECONDS = 1000 };

static event_kind append_headers(headers_column *headers, const kafka_message *message, bool *any, int *code) {
  rd_kafka_headers_t *list = NULL;
  int failed = kafka.message_headers(message, &list);
  *any = false;
  if (failed == KAFKA_NO_HEADERS) return RECORDS;
  if (failed) {
    *code = failed;
    return ERROR;
  }
  const char *name;
  const void *value;
  size_t length;
  for (size_t i = 0; kafka.header_get_all(list, i, &name, &value, &length) == KAFKA_OK; i++) {
    if (!is_utf8(name, strlen(name))) return BAD_HEADER;
    if (bytes_overflow(&headers->keys, strlen(name)) || bytes_overflow(&headers->values, length)) {
      *code = KAFKA_TOO_LARGE;
      return ERROR;
    }
    if (!bytes_append(&headers->keys, name, strlen(name)) || !bytes_append(&headers->values, value, length))
      return ERROR;
    *any = true;
  }
  return RECORDS;
}

event_kind append_record(columns *rows, const kafka_message *message, int64_t *milliseconds, int *code) {
  int type;
  int64_t at = rows->rows;
  *code = KAFKA_OK;
  const bool *has = rows->selected.has;
  if (!columns_grow(rows)) return ERROR;
  if (has[FIELD_TIMESTAMP] || has[FIELD_TIMESTAMP_TYPE]) {
    *milliseconds = kafka.message_timestamp(message, &type);
    if (!type) *milliseconds = -1; /* NO_TIMESTAMP of Java, where librdkafka has 0: message format v0 knows no time */
    if (has[FIELD_TIMESTAMP] && __builtin_mul_overflow(*milliseconds, MICROSECONDS, &rows->timestamps[at])) return BAD_TIMESTAMP;
    if (has[FIELD_TIMESTAMP_TYPE]) rows->types[at] = type - 1; /* librdkafka counts the types from 0, Java from -1 */
  }
  if (has[FIELD_OFFSET]) rows->offsets[at] = message->offset;
  bool any = false;
  if (has[FIELD_HEADERS]) {
    /* First of all that grows: headers of a row that is never ended do no harm, a key without a row would. */
    event_kind kind = append_headers(&rows->headers, message, &any, code);
    if (kind != RECORDS) return kind;
  }
  if ((has[FIELD_KEY] && !bytes_append(&rows->key, message->key, message->key_len)) ||
      (has[FIELD_VALUE] && !bytes_append(&rows->value, message->payload, message->len)) ||
      !columns_end_row(rows, message->offset, any))
    return ERROR;
  return RECORDS;
}
