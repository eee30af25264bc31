/* CRC-32C (Castagnoli), by the processor's own instruction where it has one. */
#ifndef COHORT_CRC32C_H
#define COHORT_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(const void *data, size_t length);

/* The same without the instruction, for processors that lack it. */
uint32_t crc32c_by_tables(const void *data, size_t length);

#endif
