/* Well-formed UTF-8 (Unicode, table 3-7): Arrow's strings are, Kafka's header keys needn't be. */
#ifndef COHORT_UTF8_H
#define COHORT_UTF8_H

#include <stdbool.h>
#include <stddef.h>

bool is_utf8(const void *text, size_t length);

#endif
