/* The memory of batches: small blocks are malloc's, large ones pages of their own. */
#ifndef COHORT_BLOCKS_H
#define COHORT_BLOCKS_H

#include <stddef.h>

/* NULL when memory has run out; what is in a new block is not defined. */
void *block_new(size_t size);

/* In any thread; NULL is no block. */
void block_free(void *block);

#endif
