/* Where the fields of a record batch (magic 2) stand, for those that read and those that write it: Kafka's DefaultRecordBatch. */
#ifndef COHORT_LAYOUT_H
#define COHORT_LAYOUT_H

enum {
  BASE_OFFSET = 0,
  BATCH_LENGTH = 8, /* of what follows this field */
  LEADER_EPOCH = 12,
  MAGIC = 16,
  CRC = 17,
  ATTRIBUTES = 21, /* from here on the checksum covers all */
  LAST_OFFSET_DELTA = 23,
  FIRST_TIMESTAMP = 27,
  MAX_TIMESTAMP = 35,
  PRODUCER_ID = 43,
  PRODUCER_EPOCH = 51,
  BASE_SEQUENCE = 53,
  RECORDS_COUNT = 57,
  HEADER = 61,
  FRAME = 12 /* offset and length */
};
enum { CODEC_BITS = 7, LOG_APPEND_TIME = 8, TRANSACTIONAL = 16, CONTROL = 32, ABORT_MARKER = 0 };

#endif
