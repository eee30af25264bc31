/* The client itself: made, assigned, asked, ended. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "drain.h"

/* How long a client that has told of a broken partition is left alone before it is ended.  A fetch that is refused with
 * OFFSET_OUT_OF_RANGE while the client ends has it wait for itself for ever (librdkafka 2.16: rd_kafka_offset_reset hands its
 * work to a queue that is closed by then, so that it is done at once, under the lock that it asks for).  Behind corrupt data
 * librdkafka fetches such offsets, and a broker refuses at once. */
enum { SETTLE_MS = 100 };

/* --- what librdkafka says --------------------------------------------------------------------- */

/* Note it for the next poll; what is too much is left out: it will be said again. */
static void take_note(drain *all, notes *where, int number, char *text) {
  pthread_mutex_lock(&all->noting);
  bool kept = text && where->count < MOST_NOTES;
  if (kept) where->all[where->count++] = (note){number, text};
  pthread_mutex_unlock(&all->noting);
  if (!kept) free(text);
}

static void on_error(rd_kafka_t *client, int code, const char *reason, void *opaque) {
  drain *all = opaque;
  (void)client;
  take_note(all, &all->errors, code, strdup(reason ? reason : ""));
}

static void on_log(const rd_kafka_t *client, int level, const char *facility, const char *text) {
  drain *all = kafka.opaque(client);
  const char *name = kafka.name(client);
  size_t size = strlen(facility) + strlen(name) + strlen(text) + 5;
  char *line = malloc(size);
  if (line) snprintf(line, size, "%s [%s] %s", facility, name, text);
  take_note(all, &all->lines, level, line);
}

static void forget(notes *list) {
  for (size_t i = 0; i < list->count; i++) free(list->all[i].text);
  list->count = 0;
}

/* --- made and ended --------------------------------------------------------------------------- */

static void set_failure(failure *why, int code, const char *words) {
  why->code = code;
  snprintf(why->words, sizeof why->words, "%s", words ? words : "");
}

static rd_kafka_conf_t *make_conf(const char *const (*settings)[2], size_t count, failure *why) {
  rd_kafka_conf_t *conf = kafka.conf_new();
  for (size_t i = 0; i < count; i++) {
    if (kafka.conf_set(conf, settings[i][0], settings[i][1], why->words, sizeof why->words) != KAFKA_CONF_OK) {
      why->code = KAFKA_INVALID_ARG;
      kafka.conf_destroy(conf);
      return NULL;
    }
  }
  return conf;
}

drain *drain_new(const char *const (*settings)[2], size_t count, const selection *selected, failure *why) {
  drain *all = calloc(1, sizeof *all);
  rd_kafka_conf_t *conf = all ? make_conf(settings, count, why) : NULL;
  if (!conf) {
    free(all);
    return NULL;
  }
  all->process = getpid();
  pthread_mutex_init(&all->noting, NULL);
  spent_init(&all->back);
  spent_listen(&all->back, conf);
  all->mean_bytes = 1024;
  all->run.next = -1;
  all->run.rows.selected = *selected;
  kafka.conf_set_opaque(conf, all);
  kafka.conf_set_error_cb(conf, on_error);
  kafka.conf_set_log_cb(conf, on_log);
  all->client = kafka.new(KAFKA_CONSUMER, conf, why->words, sizeof why->words);
  if (!all->client) {
    why->code = kafka.last_error();
    kafka.conf_destroy(conf); /* stays the caller's when there is no client */
    drain_free(all);
    return NULL;
  }
  kafka.set_log_queue(all->client, NULL); /* the main queue, which is polled: no line comes from another thread */
  kafka.poll_set_consumer(all->client);
  all->queue = kafka.queue_get_consumer(all->client);
  return all;
}

bool drain_is_foreign(const drain *all) { return all->process != getpid(); }

void drain_free(drain *all) {
  if (drain_is_foreign(all)) return; /* and lost: whatever lock its threads held is held for ever */
  drain_forget(all, true); /* while there is a client to give them back to */
  spent_clear(&all->back);
  if (all->client) {
    kafka.consumer_close(all->client);
    if (all->broken) nanosleep(&(struct timespec){.tv_nsec = SETTLE_MS * 1000000L}, NULL);
    kafka.queue_destroy(all->queue);
    kafka.destroy(all->client); /* no callback comes after it */
  }
  drain_clear(all);
  free(all->events);
  columns_free(&all->run.rows);
  spans_free(&all->assigned);
  forget(&all->errors);
  forget(&all->lines);
  pthread_mutex_destroy(&all->noting);
  spent_free(&all->back);
  free(all);
}

/* A drain on its way to its end, known to the thread that ends it and to the one that waits: the last to leave frees it. */
typedef struct {
  drain *all;
  pthread_mutex_t lock;
  pthread_cond_t over;
  bool ended;
  int known_to;
} ending;

static void leave_ending(ending *of) {
  bool last = --of->known_to == 0;
  pthread_mutex_unlock(&of->lock);
  if (!last) return;
  pthread_cond_destroy(&of->over);
  pthread_mutex_destroy(&of->lock);
  free(of);
}

static void *carry_out(void *argument) {
  ending *of = argument;
  drain_free(of->all);
  pthread_mutex_lock(&of->lock);
  of->ended = true;
  pthread_cond_signal(&of->over);
  leave_ending(of);
  return NULL;
}

static ending *begin_ending(drain *all) {
  ending *of = calloc(1, sizeof *of);
  if (!of) return NULL;
  of->all = all;
  of->known_to = 2;
  pthread_condattr_t clock;
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&of->over, &clock);
  pthread_condattr_destroy(&clock);
  pthread_mutex_init(&of->lock, NULL);
  pthread_t thread;
  if (pthread_create(&thread, NULL, carry_out, of) == 0) {
    pthread_detach(thread);
    return of;
  }
  of->known_to = 1;
  pthread_mutex_lock(&of->lock);
  leave_ending(of);
  return NULL;
}

bool drain_end(drain *all, int timeout_ms) {
  if (drain_is_foreign(all)) return true;
  ending *of = begin_ending(all);
  if (!of) {
    drain_free(all);
    return true;
  }
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += timeout_ms / 1000 + (until.tv_nsec + timeout_ms % 1000 * 1000000L) / 1000000000L;
  until.tv_nsec = (until.tv_nsec + timeout_ms % 1000 * 1000000L) % 1000000000L;
  pthread_mutex_lock(&of->lock);
  while (!of->ended && pthread_cond_timedwait(&of->over, &of->lock, &until) == 0) continue;
  bool ended = of->ended;
  leave_ending(of);
  return ended;
}

/* --- assigned and asked ----------------------------------------------------------------------- */

static bool done(rd_kafka_error_t *error, failure *why) {
  if (!error) return true;
  set_failure(why, kafka.error_code(error), kafka.error_string(error));
  kafka.error_destroy(error);
  return false;
}

bool drain_assign(drain *all, const rd_kafka_topic_partition_list_t *list, failure *why) {
  return done(kafka.incremental_assign(all->client, list), why);
}

bool drain_unassign(drain *all, const rd_kafka_topic_partition_list_t *list, failure *why) {
  spent_clear(&all->back); /* its memory would wait for a response that may not come */
  return done(kafka.incremental_unassign(all->client, list), why);
}

bool drain_log_range(drain *all, const char *name, int32_t partition, int timeout_ms, int64_t range[2], failure *why) {
  int code = kafka.query_watermark_offsets(all->client, name, partition, &range[0], &range[1], timeout_ms);
  if (code != KAFKA_OK) set_failure(why, code, kafka.err2str(code));
  return code == KAFKA_OK;
}

bool drain_set_token(drain *all, const char *token, int64_t ends, const char *principal, const char **extensions, size_t count,
                     failure *why) {
  why->code = kafka.oauthbearer_set_token(all->client, token, ends, principal, extensions, count, why->words,
                                          sizeof why->words);
  return why->code == KAFKA_OK;
}

static int has_partition(const kafka_metadata *answer, const char *name, int32_t partition) {
  for (int i = 0; i < answer->topic_cnt; i++) {
    const kafka_metadata_topic *of = &answer->topics[i];
    if (strcmp(of->topic, name) != 0) continue;
    for (int j = 0; j < of->partition_cnt; j++)
      if (of->partitions[j].id == partition) return 1;
  }
  return 0;
}

int drain_exists(drain *all, const char *name, int32_t partition, int timeout_ms, failure *why) {
  rd_kafka_topic_t *only = kafka.topic_new(all->client, name, NULL);
  const kafka_metadata *answer = NULL;
  int code = only ? kafka.metadata(all->client, 0, only, &answer, timeout_ms) : kafka.last_error();
  if (only) kafka.topic_destroy(only);
  if (code != KAFKA_OK) {
    set_failure(why, code, kafka.err2str(code));
    return -1;
  }
  int found = has_partition(answer, name, partition);
  kafka.metadata_destroy(answer);
  return found;
}
