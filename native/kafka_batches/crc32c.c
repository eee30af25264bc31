/* Eight bytes a step: one instruction on x86-64 and ARM, eight tables elsewhere (Kounavis and Berry, "slicing by 8"). */
#include "crc32c.h"

#include <pthread.h>
#include <string.h>

enum { STEP = 8, BYTES = 256 };
static const uint32_t POLYNOMIAL = 0x82F63B78; /* reflected */

static uint32_t tables[STEP][BYTES];
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make_tables(void) {
  for (uint32_t byte = 0; byte < BYTES; byte++) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; bit++) rest = (rest >> 1) ^ (rest & 1 ? POLYNOMIAL : 0);
    tables[0][byte] = rest;
  }
  for (int step = 1; step < STEP; step++)
    for (int byte = 0; byte < BYTES; byte++)
      tables[step][byte] = (tables[step - 1][byte] >> 8) ^ tables[0][tables[step - 1][byte] & 0xFF];
}

uint32_t crc32c_by_tables(const void *data, size_t length) {
  pthread_once(&made, make_tables);
  const uint8_t *at = data;
  uint32_t rest = ~0u;
  for (; length >= STEP; at += STEP, length -= STEP) {
    uint32_t low = rest ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
    rest = tables[7][low & 0xFF] ^ tables[6][low >> 8 & 0xFF] ^ tables[5][low >> 16 & 0xFF] ^ tables[4][low >> 24] ^
           tables[3][at[4]] ^ tables[2][at[5]] ^ tables[1][at[6]] ^ tables[0][at[7]];
  }
  for (; length; length--) rest = (rest >> 8) ^ tables[0][(rest ^ *at++) & 0xFF];
  return ~rest;
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <nmmintrin.h>

#ifdef __clang__
#define ITS_TARGET "sse4.2,crc32" /* for clang an extension of its own */
#else
#define ITS_TARGET "sse4.2"
#endif

__attribute__((target(ITS_TARGET))) static uint32_t by_instruction(const uint8_t *at, size_t length) {
  uint64_t rest = 0xFFFFFFFF, word;
  for (; length >= STEP; at += STEP, length -= STEP) {
    memcpy(&word, at, STEP);
    rest = _mm_crc32_u64(rest, word);
  }
  uint32_t last = (uint32_t)rest;
  for (; length; length--) last = _mm_crc32_u8(last, *at++);
  return ~last;
}

static pthread_once_t asked = PTHREAD_ONCE_INIT;
static int answered;

/* Not __builtin_cpu_supports(): for that the linker takes in the compiler's own library, with a memcpy() that is not libc's. */
static void ask_processor(void) {
  unsigned a, b, c, d;
  answered = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2) != 0;
}

static int has_instruction(void) {
  pthread_once(&asked, ask_processor);
  return answered;
}

#elif defined(__aarch64__) && defined(__linux__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

__attribute__((target("+crc"))) static uint32_t by_instruction(const uint8_t *at, size_t length) {
  uint32_t rest = ~0u;
  uint64_t word;
  for (; length >= STEP; at += STEP, length -= STEP) {
    memcpy(&word, at, STEP);
    rest = __crc32cd(rest, word);
  }
  for (; length; length--) rest = __crc32cb(rest, *at++);
  return ~rest;
}

static int has_instruction(void) { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }

#else

static uint32_t by_instruction(const uint8_t *at, size_t length) { return crc32c_by_tables(at, length); }

static int has_instruction(void) { return 0; }

#endif

uint32_t crc32c(const void *data, size_t length) {
  return has_instruction() ? by_instruction(data, length) : crc32c_by_tables(data, length);
}
