/* See spent.h. */
#include "spent.h"

#include <stdlib.h>
#include <string.h>

enum { FETCH = 1 };           /* Kafka's api key */
enum { MESSAGE_BYTES = 512 }; /* what librdkafka keeps of a message beside its bytes */

/* The bytes of a message count several times: of large ones there are few, and what they hold is much. */
static int64_t weight(const kafka_message *message) {
  return 4 * (int64_t)(message->len + message->key_len) + MESSAGE_BYTES;
}

static void destroy(kafka_message **messages, size_t count) {
  for (size_t i = 0; i < count; i++) kafka.message_destroy(messages[i]);
}

void spent_init(spent *back) {
  *back = (spent){0};
  pthread_mutex_init(&back->lock, NULL);
}

void spent_free(spent *back) {
  spent_clear(back);
  for (size_t i = 0; i < back->count; i++) free(back->piles[i].all);
  free(back->piles);
  pthread_mutex_destroy(&back->lock);
}

/* --- taken ------------------------------------------------------------------------------------ */

/* Take a pile's messages out: they are the caller's to destroy, and so is the list. */
static spent_pile lift(spent *back, spent_pile *pile) {
  spent_pile lifted = *pile;
  *pile = (spent_pile){.broker = pile->broker};
  for (size_t i = 0; i < lifted.count; i++) back->weight -= weight(lifted.all[i]);
  return lifted;
}

static void clear_pile(spent *back, size_t place) {
  pthread_mutex_lock(&back->lock);
  spent_pile lifted = lift(back, &back->piles[place]);
  pthread_mutex_unlock(&back->lock);
  destroy(lifted.all, lifted.count);
  free(lifted.all);
}

void spent_clear(spent *back) {
  for (size_t i = 0; i < back->count; i++) clear_pile(back, i); /* piles are added by this thread alone */
}

static int on_response(rd_kafka_t *client, int socket, const char *name, int32_t broker, int16_t api_key, int16_t version,
                       int32_t correlation, size_t size, int64_t microseconds, int error, void *opaque) {
  spent *back = opaque;
  (void)client, (void)socket, (void)name, (void)version, (void)correlation, (void)size, (void)microseconds, (void)error;
  if (api_key != FETCH) return KAFKA_OK;
  spent_pile lifted = {0};
  pthread_mutex_lock(&back->lock);
  for (size_t i = 0; i < back->count; i++)
    if (back->piles[i].broker == broker) lifted = lift(back, &back->piles[i]);
  pthread_mutex_unlock(&back->lock);
  destroy(lifted.all, lifted.count);
  free(lifted.all);
  return KAFKA_OK;
}

static int on_new(rd_kafka_t *client, const rd_kafka_conf_t *conf, void *opaque, char *words, size_t size) {
  (void)conf, (void)words, (void)size;
  return kafka.interceptor_add_on_response_received(client, "cohort", on_response, opaque);
}

void spent_listen(spent *back, rd_kafka_conf_t *conf) {
  kafka.conf_interceptor_add_on_new(conf, "cohort", on_new, back);
}

/* --- given ------------------------------------------------------------------------------------ */

static spent_pile *pile_of(spent *back, int32_t broker) {
  for (size_t i = 0; i < back->count; i++)
    if (back->piles[i].broker == broker) return &back->piles[i];
  spent_pile *moved = realloc(back->piles, (back->count + 1) * sizeof *moved);
  if (!moved) return NULL;
  back->piles = moved;
  back->piles[back->count] = (spent_pile){.broker = broker};
  return &back->piles[back->count++];
}

static bool put(spent *back, kafka_message *message) {
  spent_pile *pile = pile_of(back, kafka.message_broker_id(message));
  if (!pile) return false;
  if (pile->count == pile->room) {
    size_t room = pile->room ? 2 * pile->room : 1024;
    kafka_message **moved = realloc(pile->all, room * sizeof(kafka_message *));
    if (!moved) return false;
    pile->all = moved;
    pile->room = room;
  }
  pile->all[pile->count++] = message;
  back->weight += weight(message);
  return true;
}

void spent_give(spent *back, kafka_message **messages, size_t count, int64_t limit) {
  size_t given = 0;
  pthread_mutex_lock(&back->lock);
  while (given < count && put(back, messages[given])) given++;
  bool full = back->weight > limit;
  pthread_mutex_unlock(&back->lock);
  destroy(messages + given, count - given);
  if (full) spent_clear(back);
}
