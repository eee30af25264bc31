/* Reads Protobuf's records by a list of steps, into a tree of columns.  What a step does stands in
 * runtime/values/protobuf_steps.py. */
#ifndef COHORT_PROTOBUF_H
#define COHORT_PROTOBUF_H

#include "constant.h"
#include "tree.h"

typedef enum {
  PB_MESSAGE, PB_BOOL, PB_INT32, PB_SINT32, PB_FIXED32, PB_FLOAT, PB_INT64, PB_SINT64, PB_FIXED64, PB_DOUBLE, PB_ENUM,
  PB_BYTES, PB_STRING, PB_SUBMESSAGE, PB_TIME, PB_OPS
} protobuf_op;

enum { PB_REPEATED = 1, PB_REQUIRED = 2, PB_IMPLICIT = 4, PB_GROUP = 8, PB_CLOSED = 16, PB_DEFAULT = 32 };

/* How a value ends. */
enum { WIRE_VARINT, WIRE_I64, WIRE_LEN, WIRE_SGROUP, WIRE_EGROUP, WIRE_I32 };

enum { PB_MOST_PREFIX = 480 }; /* bytes in front of the number that an enum does not have */

/* Why a record can't be read; the last is no fault of the record. */
typedef enum {
  PB_GOOD, PB_TRUNCATED, PB_VARINT, PB_LENGTH, PB_NUMBER, PB_WIRE_TYPE, PB_GROUP_END, PB_OTHER_TYPE, PB_NO_ENUM, PB_UTF8,
  PB_MISSING, PB_RANGE, PB_DEPTH, PB_FRAME, PB_OTHER_MESSAGE, PB_NO_MEMORY
} protobuf_reason;

typedef struct {
  int64_t op, column, number, flags, oneof, a, b;
} protobuf_step;

/* What a message has of one field: `value` is a number, or how many bytes begin `at`. */
typedef struct {
  const uint8_t *first, *last; /* where the tag of the first one begins, where the last one ends */
  const uint8_t *at;
  uint64_t value;
  int64_t count;
} protobuf_slot;

typedef struct {
  const protobuf_step *steps;
  int64_t count;
  const int64_t *table;
  int64_t table_count;
  const constant *constants;
  int64_t constant_count;
  protobuf_slot *slots; /* one for each step, so a list is for one thread at a time */
} protobuf_list;

typedef struct {
  protobuf_reason reason;
  int64_t at;   /* where the record's own field begins */
  int64_t step; /* of the field inside, or -1 */
} protobuf_error;

/* Whether every step is one that can run on these columns. */
bool protobuf_valid(const protobuf_list *, const tree *);

/* Append a record to all columns.  When it can't be read, what it has appended is still there: tree_cut() takes it back. */
protobuf_error protobuf_read(const protobuf_list *, tree *, const uint8_t *bytes, size_t size, bool framed);

static inline int64_t protobuf_wire_type(const protobuf_step *step) {
  static const uint8_t of[PB_OPS] = {[PB_FIXED32] = WIRE_I32, [PB_FLOAT] = WIRE_I32, [PB_FIXED64] = WIRE_I64,
                                     [PB_DOUBLE] = WIRE_I64, [PB_BYTES] = WIRE_LEN, [PB_STRING] = WIRE_LEN,
                                     [PB_SUBMESSAGE] = WIRE_LEN, [PB_TIME] = WIRE_LEN};
  return step->flags & PB_GROUP ? WIRE_SGROUP : of[step->op];
}

#endif
