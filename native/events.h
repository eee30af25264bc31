/* What a part of a Fetch response answers with: the kinds of its events, and librdkafka's numbers for bytes that can't be read. */
#ifndef COHORT_EVENTS_H
#define COHORT_EVENTS_H

enum { WORDS = 512 }; /* bytes of an error's text */

/* See _native.pyi for what an event has. */
typedef enum { RECORDS, ERROR, BAD_TIMESTAMP, BAD_HEADER, TOO_LARGE, UNPACKING } event_kind;

/* An ERROR has the number that librdkafka's would have: one table in Python knows both. */
enum { KAFKA_BAD_MSG = -199, KAFKA_BAD_COMPRESSION = -198, KAFKA_NOT_IMPLEMENTED = -170 };

#endif
