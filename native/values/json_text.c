/* Spark's default formats (SparkDateTimeUtils.stringToDate and parseTimestampString); the calendar is the proleptic one. */
#include "json_text.h"

#include <string.h>

typedef struct {
  const char *at, *end;
} cursor;

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_blank(char c) { return (unsigned char)c <= ' ' || c == 0x7F; }

static cursor trimmed(const char *text, size_t length) {
  cursor from = {text, text + length};
  while (from.at < from.end && is_blank(*from.at)) from.at++;
  while (from.at < from.end && is_blank(from.end[-1])) from.end--;
  return from;
}

static bool take(cursor *from, char wanted) {
  if (from->at == from->end || *from->at != wanted) return false;
  from->at++;
  return true;
}

/* As many digits as there are, when these are no fewer and no more than allowed. */
static bool digits(cursor *from, int least, int most, int32_t *number) {
  int count = 0;
  for (*number = 0; from->at < from->end && is_digit(*from->at); from->at++) {
    if (++count > most) return false;
    *number = *number * 10 + (*from->at - '0');
  }
  return count >= least;
}

/* --- dates ------------------------------------------------------------------------------------ */

static bool is_leap(int64_t year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

static bool days_of(int64_t year, int32_t month, int32_t day, int64_t *days) {
  static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (month < 1 || month > 12 || day < 1 || day > lengths[month - 1] + (month == 2 && is_leap(year))) return false;
  /* Years that begin in March have the leap day at their end; an era has 400 years, 1970 starts 719468 days into it. */
  int64_t y = month > 2 ? year : year - 1;
  int64_t era = (y >= 0 ? y : y - 399) / 400, in_era = y - era * 400;
  int64_t in_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
  *days = era * 146097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year - 719468;
  return true;
}

/* [+-]y…-[m]m-[d]d, cut behind the year or the month as well; `parts` tells how many of the three there were. */
static bool read_date(cursor *from, int most, int64_t *days, int *parts) {
  int32_t year, month = 1, day = 1;
  bool negative = take(from, '-');
  if (!negative) take(from, '+');
  *parts = 1;
  if (!digits(from, 4, most, &year)) return false;
  if (take(from, '-')) {
    *parts = 2;
    if (!digits(from, 1, 2, &month)) return false;
    if (take(from, '-')) {
      *parts = 3;
      if (!digits(from, 1, 2, &day)) return false;
    }
  }
  return days_of(negative ? -(int64_t)year : year, month, day, days);
}

/* Spark 1.5 wrote the days since 1970 as a string.  Those before 1582-10-15 would be of another calendar. */
static bool read_days(const char *text, size_t length, int32_t *days) {
  cursor from = {text, text + length};
  int64_t number;
  bool fits;
  if (take(&from, '+') && from.at < from.end && *from.at == '-') return false;
  if (!text_to_long(from.at, (size_t)(from.end - from.at), &number, &fits)) return false;
  *days = (int32_t)number;
  return number >= -141427 && number <= INT32_MAX;
}

bool text_to_date(const char *text, size_t length, int32_t *days) {
  cursor from = trimmed(text, length);
  int64_t found;
  int parts;
  bool read = read_date(&from, 7, &found, &parts);
  /* Behind a whole date anything may follow that begins like a time. */
  if (read && from.at < from.end) read = parts == 3 && (*from.at == ' ' || *from.at == 'T');
  if (!read || found < INT32_MIN || found > INT32_MAX) return read_days(text, length, days);
  *days = (int32_t)found;
  return true;
}

/* --- timestamps ------------------------------------------------------------------------------- */

/* Digits behind the point: six count. */
static int32_t read_fraction(cursor *from) {
  int32_t micros = 0;
  int count = 0;
  for (; from->at < from->end && is_digit(*from->at); from->at++)
    if (count < 6) {
      micros = micros * 10 + (*from->at - '0');
      count++;
    }
  for (; count < 6; count++) micros *= 10;
  return micros;
}

/* h, hh, hhmm, hhmmss, or [h]h:[m]m and hh:mm:ss; at most 18 hours. */
static bool read_offset(cursor *from, int32_t *seconds) {
  int32_t hours = 0, minutes = 0, rest = 0;
  size_t length = (size_t)(from->end - from->at);
  if (memchr(from->at, ':', length)) {
    if (!digits(from, 1, 2, &hours) || !take(from, ':') || !digits(from, 1, 2, &minutes)) return false;
    if (take(from, ':') && !digits(from, 2, 2, &rest)) return false;
  } else if (length <= 2) {
    if (!digits(from, 1, 2, &hours)) return false;
  } else {
    int32_t all;
    if ((length != 4 && length != 6) || !digits(from, 4, 6, &all)) return false;
    rest = length == 6 ? all % 100 : 0;
    hours = length == 6 ? all / 10000 : all / 100;
    minutes = length == 6 ? all / 100 % 100 : all % 100;
  }
  *seconds = hours * 3600 + minutes * 60 + rest;
  return from->at == from->end && minutes < 60 && rest < 60 && *seconds <= 18 * 3600;
}

/* Z, an offset, or one behind UTC, GMT or UT; a region's zone would have to be looked up where it is decoded. */
static bool read_zone(cursor from, int32_t *seconds) {
  static const char *const names[] = {"UTC", "GMT", "UT"};
  from = trimmed(from.at, (size_t)(from.end - from.at));
  *seconds = 0;
  if (take(&from, 'Z')) return from.at == from.end;
  for (size_t i = 0; i < 3; i++) {
    size_t length = strlen(names[i]);
    if ((size_t)(from.end - from.at) < length || memcmp(from.at, names[i], length) != 0) continue;
    from.at += length;
    if (from.at == from.end) return true;
    break;
  }
  bool west = take(&from, '-');
  if ((!west && !take(&from, '+')) || !read_offset(&from, seconds)) return false;
  if (west) *seconds = -*seconds;
  return true;
}

/* hh[:mm[:ss[.ffffff][zone]]] up to the end. */
static bool read_time(cursor *from, int64_t *micros, bool *has_zone, int32_t *offset) {
  int32_t part[3] = {0}, fraction = 0;
  int parts = 0;
  do
    if (!digits(from, 1, 2, &part[parts])) return false;
  while (++parts < 3 && take(from, ':'));
  if (parts == 3 && take(from, '.')) fraction = read_fraction(from);
  *has_zone = parts == 3 && from->at < from->end;
  if (*has_zone && !read_zone(*from, offset)) return false;
  *micros = ((int64_t)part[0] * 3600 + part[1] * 60 + part[2]) * 1000000 + fraction;
  return (*has_zone || from->at == from->end) && part[0] < 24 && part[1] < 60 && part[2] < 60;
}

/* The last entry that begins no later; what is before the first one is as that. */
static int64_t offset_at(const time_zone *zone, int64_t second) {
  enum { DAYS_OF_AN_ERA = 146097 };
  static const int64_t era = DAYS_OF_AN_ERA * INT64_C(86400);
  if (zone->count < 2) return 0;
  int64_t end = zone->offsets[zone->count - 1].from;
  if (second >= end) second -= ((second - end) / era + 1) * era;
  size_t low = 0, high = zone->count - 1;
  while (high - low > 1) {
    size_t middle = (low + high) / 2;
    if (zone->offsets[middle].from <= second)
      low = middle;
    else
      high = middle;
  }
  return zone->offsets[low].offset;
}

bool text_to_timestamp(const char *text, size_t length, const time_zone *zone, int64_t *micros) {
  cursor from = trimmed(text, length);
  int64_t days, in_day = 0, ahead;
  int32_t offset = 0;
  int parts;
  bool has_zone = false;
  if (!read_date(&from, 6, &days, &parts)) return false;
  if (from.at < from.end) {
    if (parts < 3 || (*from.at != ' ' && *from.at != 'T')) return false;
    from.at++;
    if (!read_time(&from, &in_day, &has_zone, &offset)) return false;
  }
  if (has_zone && !zone) return false;
  ahead = has_zone || !zone ? offset : offset_at(zone, days * 86400 + in_day / 1000000);
  return !__builtin_mul_overflow(days, INT64_C(86400000000), micros) &&
         !__builtin_add_overflow(*micros, in_day - ahead * INT64_C(1000000), micros);
}

/* --- numbers ---------------------------------------------------------------------------------- */

bool text_to_long(const char *text, size_t length, int64_t *number, bool *fits) {
  cursor from = {text, text + length};
  bool negative = take(&from, '-');
  *number = 0;
  *fits = true;
  if (from.at == from.end) return false;
  for (; from.at < from.end; from.at++) {
    if (!is_digit(*from.at)) return *fits = true, false; /* no whole number, however large */
    int64_t digit = negative ? '0' - *from.at : *from.at - '0';
    if (__builtin_mul_overflow(*number, 10, number) || __builtin_add_overflow(*number, digit, number)) *fits = false;
  }
  return *fits;
}

typedef struct {
  bool negative, exact;
  int64_t count;    /* of digits, without zeros in front */
  int64_t exponent; /* of the last digit */
  const char *first;
} number_shape;

static bool take_sign(cursor *from, bool commas) {
  while (commas && take(from, ',')) continue;
  bool negative = take(from, '-');
  if (!negative) take(from, '+');
  return negative;
}

/* What a BigDecimal would read: where its digits are and what they are worth. */
static bool read_shape(cursor from, bool commas, number_shape *found) {
  enum { MOST = 1 << 20 };
  bool any = false, point = false;
  *found = (number_shape){.negative = take_sign(&from, commas)};
  for (; from.at < from.end; from.at++) {
    if (*from.at == '.' && !point)
      point = true;
    else if (is_digit(*from.at)) {
      any = true;
      if (point) found->exponent--;
      if (!found->count && *from.at == '0') continue;
      if (!found->count++) found->first = from.at;
    } else if (*from.at != ',' || !commas)
      break;
  }
  if (!any) return false;
  if (!take(&from, 'e') && !take(&from, 'E')) return from.at == from.end;
  bool down = take_sign(&from, commas);
  int64_t power = 0;
  any = false;
  for (; from.at < from.end && (is_digit(*from.at) || (commas && *from.at == ',')); from.at++) {
    if (!is_digit(*from.at)) continue;
    any = true;
    if (power < MOST) power = power * 10 + (*from.at - '0');
  }
  found->exponent += down ? -power : power;
  return from.at == from.end && any;
}

decimal_fault text_to_decimal(const char *text, size_t length, bool commas, int precision, int scale, __int128 *unscaled) {
  number_shape shape;
  *unscaled = 0;
  if (!read_shape((cursor){text, text + length}, commas, &shape)) return DECIMAL_MALFORMED;
  int64_t shift = shape.exponent + scale, kept = shift < 0 ? shape.count + shift : shape.count;
  if (!shape.count || kept < 0) return DECIMAL_GOOD;
  if (kept + (shift > 0 ? shift : 0) > precision) return DECIMAL_TOO_LARGE;
  __int128 limit = 1, number = 0;
  for (int i = 0; i < precision; i++) limit *= 10;
  const char *at = shape.first;
  for (int64_t i = 0; i < kept; at++)
    if (is_digit(*at)) {
      number = number * 10 + (*at - '0');
      i++;
    }
  for (int64_t i = 0; i < shift; i++) number *= 10;
  if (shift < 0) {
    while (!is_digit(*at)) at++;
    number += *at >= '5';
  }
  *unscaled = shape.negative ? -number : number;
  return number < limit ? DECIMAL_GOOD : DECIMAL_TOO_LARGE;
}

/* --- bytes ------------------------------------------------------------------------------------ */

static int value_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (is_digit(c)) return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool base64_to_bytes(const char *text, size_t length, uint8_t *to, size_t *size) {
  const char *at = text, *end = text + length;
  uint8_t *next = to;
  bool ended = false;
  for (;;) {
    while (at < end && (unsigned char)*at <= ' ') at++;
    *size = (size_t)(next - to);
    if (at == end) return true;
    if (ended || end - at < 4) return false;
    int a = value_of(at[0]), b = value_of(at[1]), c = value_of(at[2]), d = value_of(at[3]);
    if (a < 0 || b < 0 || (c < 0 && (at[2] != '=' || at[3] != '=')) || (d < 0 && at[3] != '=')) return false;
    *next++ = (uint8_t)(a << 2 | b >> 4);
    if (c >= 0) *next++ = (uint8_t)(b << 4 | c >> 2);
    if (d >= 0) *next++ = (uint8_t)(c << 6 | d);
    ended = d < 0;
    at += 4;
  }
}
