/* librdkafka found at run time: see kafka.h. */
#include "kafka.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

kafka_api kafka;

static const struct {
  const char *symbol;
  size_t at;
} wanted[] = {
#define X(result, name, arguments) {"rd_kafka_" #name, offsetof(kafka_api, name)},
    KAFKA_FUNCTIONS(X)
#undef X
};

static int find_all(void *library, kafka_api *found, char *reason, size_t size) {
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    void *function = dlsym(library, wanted[i].symbol);
    if (!function) {
      snprintf(reason, size, "librdkafka has no %s", wanted[i].symbol);
      return -1;
    }
    /* A copy of the pointer's bytes: C has no cast from an object's address to a function's. */
    memcpy((char *)found + wanted[i].at, &function, sizeof function);
  }
  return 0;
}

int load_kafka(const char *path, char *reason, size_t size) {
  /* dlsym() on this handle looks through its dependencies, too, so librdkafka's own file name doesn't matter. */
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    snprintf(reason, size, "%s", dlerror());
    return -1;
  }
  kafka_api found;
  if (find_all(library, &found, reason, size) < 0) {
    dlclose(library);
    return -1;
  }
  int major = found.version() >> 24;
  if (major != 2) { /* another one may have another layout of its structures */
    snprintf(reason, size, "librdkafka %s is not a version 2", found.version_str());
    dlclose(library);
    return -1;
  }
  kafka = found;
  return 0;
}
