/* The table of well-formed sequences as comparisons. */
#include "utf8.h"

#include <stdint.h>
#include <string.h>

/* Any text: a call, or mere ASCII would save the registers that this needs. */
static __attribute__((noinline)) bool is_long_utf8(const unsigned char *at, const unsigned char *end) {
  while (at < end) {
    uint64_t eight;
    while (end - at >= 8 && (memcpy(&eight, at, 8), !(eight & 0x8080808080808080u))) at += 8;
    if (at == end) break;
    unsigned char lead = *at++;
    if (lead < 0x80) continue;
    int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    if (lead < 0xC2 || lead > 0xF4 || end - at < more) return false;
    /* Overlong forms, surrogates, and what lies behind U+10FFFF show in the second byte. */
    unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (*at < low || *at > high) return false;
    for (at++; --more > 0; at++)
      if ((*at & 0xC0) != 0x80) return false;
  }
  return true;
}

/* Mostly it is ASCII. */
bool is_utf8(const void *text, size_t length) {
  const unsigned char *at = text, *end = at + length;
  uint64_t eight;
  while (end - at >= 8 && (memcpy(&eight, at, 8), !(eight & 0x8080808080808080u))) at += 8;
  while (at < end && *at < 0x80) at++;
  return at == end || is_long_utf8(at, end);
}
