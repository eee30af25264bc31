/* What Spark reads out of JSON's strings and numbers: dates, times, decimals, base64. */
#ifndef COHORT_JSON_TEXT_H
#define COHORT_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool text_to_date(const char *text, size_t length, int32_t *days);

/* From which second of local time on a zone is how many seconds ahead of UTC, in order; the last one tells where the table ends:
 * what comes after it is as it was 400 years before. */
typedef struct {
  int64_t from, offset;
} zone_offset;

typedef struct {
  const zone_offset *offsets; /* without any it is UTC */
  size_t count;
} time_zone;

/* `zone`: where a text is from that names none; NULL: a text that names one is refused. */
bool text_to_timestamp(const char *text, size_t length, const time_zone *zone, int64_t *micros);

typedef enum { DECIMAL_GOOD, DECIMAL_MALFORMED, DECIMAL_TOO_LARGE } decimal_fault;

/* Rounded half up to `scale`; commas count for nothing where a string has them. */
decimal_fault text_to_decimal(const char *text, size_t length, bool commas, int precision, int scale, __int128 *unscaled);

/* A whole number as JSON writes it; false where it is none, or `*fits` is false. */
bool text_to_long(const char *text, size_t length, int64_t *number, bool *fits);

/* `to` has room for length / 4 * 3 bytes.  Spaces may stand between groups of four. */
bool base64_to_bytes(const char *text, size_t length, uint8_t *to, size_t *size);

#endif
