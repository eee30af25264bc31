/* The part of librdkafka's public API that is used here, declared after its documentation (rdkafka.h, librdkafka 2.x).
 *
 * Headers of librdkafka are not needed to build, nor is it linked: confluent-kafka brings the library, and one process
 * is to have one.  load_kafka() finds its functions at run time, wherever it came from. */
#ifndef COHORT_KAFKA_H
#define COHORT_KAFKA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_topic_conf_s rd_kafka_topic_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_headers_s rd_kafka_headers_t;
typedef struct rd_kafka_error_s rd_kafka_error_t;
typedef struct rd_kafka_topic_partition_list_s rd_kafka_topic_partition_list_t;

/* Values of enumerations that are part of the API and hence of the ABI. */
enum { KAFKA_CONSUMER = 1 };
enum { KAFKA_CONF_OK = 0 };
enum { KAFKA_OK = 0, KAFKA_NO_HEADERS = -156, KAFKA_PARTITION_EOF = -191, KAFKA_INVALID_ARG = -186, KAFKA_TOO_LARGE = 10 };

/* rd_kafka_message_t */
typedef struct {
  int err;
  rd_kafka_topic_t *topic;
  int32_t partition;
  void *payload;
  size_t len;
  void *key;
  size_t key_len;
  int64_t offset;
  void *internal;
} kafka_message;

/* struct rd_kafka_metadata_broker, _partition, _topic and rd_kafka_metadata */
typedef struct {
  int32_t id;
  char *host;
  int port;
} kafka_metadata_broker;

typedef struct {
  int32_t id;
  int err;
  int32_t leader;
  int replica_cnt;
  int32_t *replicas;
  int isr_cnt;
  int32_t *isrs;
} kafka_metadata_partition;

typedef struct {
  char *topic;
  int partition_cnt;
  kafka_metadata_partition *partitions;
  int err;
} kafka_metadata_topic;

typedef struct {
  int broker_cnt;
  kafka_metadata_broker *brokers;
  int topic_cnt;
  kafka_metadata_topic *topics;
  int32_t orig_broker_id;
  char *orig_broker_name;
} kafka_metadata;

typedef void kafka_error_cb(rd_kafka_t *, int code, const char *reason, void *opaque);
typedef void kafka_log_cb(const rd_kafka_t *, int level, const char *facility, const char *text);

typedef int kafka_on_new(rd_kafka_t *, const rd_kafka_conf_t *, void *opaque, char *words, size_t size);
typedef int kafka_on_response_received(rd_kafka_t *, int socket, const char *name, int32_t broker, int16_t api_key,
                                       int16_t version, int32_t correlation, size_t size, int64_t microseconds, int error,
                                       void *opaque);

/* X(result, name without "rd_kafka_", arguments) */
#define KAFKA_FUNCTIONS(X) \
  X(int, version, (void)) \
  X(const char *, version_str, (void)) \
  X(const char *, err2str, (int)) \
  X(rd_kafka_conf_t *, conf_new, (void)) \
  X(void, conf_destroy, (rd_kafka_conf_t *)) \
  X(int, conf_set, (rd_kafka_conf_t *, const char *, const char *, char *, size_t)) \
  X(void, conf_set_opaque, (rd_kafka_conf_t *, void *)) \
  X(void, conf_set_error_cb, (rd_kafka_conf_t *, kafka_error_cb *)) \
  X(void, conf_set_log_cb, (rd_kafka_conf_t *, kafka_log_cb *)) \
  X(int, conf_interceptor_add_on_new, (rd_kafka_conf_t *, const char *, kafka_on_new *, void *)) \
  X(int, interceptor_add_on_response_received, (rd_kafka_t *, const char *, kafka_on_response_received *, void *)) \
  X(rd_kafka_t *, new, (int, rd_kafka_conf_t *, char *, size_t)) \
  X(const char *, name, (const rd_kafka_t *)) \
  X(void *, opaque, (const rd_kafka_t *)) \
  X(int, poll_set_consumer, (rd_kafka_t *)) \
  X(int, set_log_queue, (rd_kafka_t *, rd_kafka_queue_t *)) \
  X(rd_kafka_queue_t *, queue_get_consumer, (rd_kafka_t *)) \
  X(void, queue_destroy, (rd_kafka_queue_t *)) \
  X(int, consumer_close, (rd_kafka_t *)) \
  X(void, destroy, (rd_kafka_t *)) \
  X(rd_kafka_topic_partition_list_t *, topic_partition_list_new, (int)) \
  X(void *, topic_partition_list_add, (rd_kafka_topic_partition_list_t *, const char *, int32_t)) \
  X(int, topic_partition_list_set_offset, (rd_kafka_topic_partition_list_t *, const char *, int32_t, int64_t)) \
  X(void, topic_partition_list_destroy, (rd_kafka_topic_partition_list_t *)) \
  X(rd_kafka_error_t *, incremental_assign, (rd_kafka_t *, const rd_kafka_topic_partition_list_t *)) \
  X(rd_kafka_error_t *, incremental_unassign, (rd_kafka_t *, const rd_kafka_topic_partition_list_t *)) \
  X(int, error_code, (const rd_kafka_error_t *)) \
  X(const char *, error_string, (const rd_kafka_error_t *)) \
  X(void, error_destroy, (rd_kafka_error_t *)) \
  X(ssize_t, consume_batch_queue, (rd_kafka_queue_t *, int, kafka_message **, size_t)) \
  X(void, message_destroy, (kafka_message *)) \
  X(int32_t, message_broker_id, (const kafka_message *)) \
  X(const char *, message_errstr, (const kafka_message *)) \
  X(int64_t, message_timestamp, (const kafka_message *, int *)) \
  X(int, message_headers, (const kafka_message *, rd_kafka_headers_t **)) \
  X(int, header_get_all, (const rd_kafka_headers_t *, size_t, const char **, const void **, size_t *)) \
  X(rd_kafka_topic_t *, topic_new, (rd_kafka_t *, const char *, rd_kafka_topic_conf_t *)) \
  X(const char *, topic_name, (const rd_kafka_topic_t *)) \
  X(void, topic_destroy, (rd_kafka_topic_t *)) \
  X(int, query_watermark_offsets, (rd_kafka_t *, const char *, int32_t, int64_t *, int64_t *, int)) \
  X(int, get_watermark_offsets, (rd_kafka_t *, const char *, int32_t, int64_t *, int64_t *)) \
  X(int, metadata, (rd_kafka_t *, int, rd_kafka_topic_t *, const kafka_metadata **, int)) \
  X(void, metadata_destroy, (const kafka_metadata *)) \
  X(int, oauthbearer_set_token, \
    (rd_kafka_t *, const char *, int64_t, const char *, const char **, size_t, char *, size_t)) \
  X(int, last_error, (void))

typedef struct {
#define X(result, name, arguments) result(*name) arguments;
  KAFKA_FUNCTIONS(X)
#undef X
} kafka_api;

/* librdkafka, once load_kafka() has found it. */
extern kafka_api kafka;

/* Find librdkafka among what the shared object `path` (loaded already) depends on: 0, or -1 with the reason. */
int load_kafka(const char *path, char *reason, size_t size);

#endif
