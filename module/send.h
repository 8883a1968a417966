// Replies that are sent in one piece, inlined into the path of a command as path.h is.
#ifndef THROTTLE_SEND_H
#define THROTTLE_SEND_H

#include <endian.h>

#include "call.h"
#include "path.h"

// The lengths of the texts that can be sent in one piece.
enum { SENT_FROM = 20, SENT_UP_TO = 320 };

// send.c. A reply of the server's own for each length, and its text, which is overwritten before it is sent.
typedef struct {
  RedisModuleCallReply *reply;
  char *text;
} throttleCarrier;

extern throttleCarrier throttleCarriers[SENT_UP_TO + 1];

// Room for what is too long to be sent in one piece, too.
typedef struct {
  char text[MAX_NAMES * (MAX_SENT_NAME + 24) + 64];
} throttleSentText;

// throttleSend sends a text of RESP as it is. It returns 0, and nothing is sent, if there is no carrier for it.
static inline int throttleSend(RedisModuleCtx *ctx, const throttleSentText *text, const char *end) {
  size_t length = (size_t)(end - text->text);
  if (RARELY(length > SENT_UP_TO || !throttleCarriers[length].reply)) return 0;
  memcpy(throttleCarriers[length].text, text->text, length);
  api.ReplyWithCallReply(ctx, throttleCarriers[length].reply);
  return 1;
}

char *throttlePutLong(char *at, int64_t n);

// The digits of a number below 10^8, without zeros in front. All are worked out at once, the first in the lowest byte:
// stack.AppendTAT does the same.
static inline char *putDigits(char *at, uint64_t n) {
  n = n / 10000 | n % 10000 << 32;
  uint64_t hundreds = n * 5243 >> 19 & 0x0000007F0000007F;
  n = hundreds | (n - hundreds * 100) << 16;
  uint64_t tens = n * 103 >> 10 & 0x000F000F000F000F;
  n = tens | (n - tens * 10) << 8;
  int skipped = __builtin_ctzll(n | 1ULL << 56) & ~7;
  n = htole64((n | 0x3030303030303030) >> skipped);
  memcpy(at, &n, sizeof n);
  return at + 8 - skipped / 8;
}

// An integer behind its colon. Most are from -1 to 9.
static inline char *throttlePutInteger(char *at, int64_t n) {
  static const char shortest[][4] = {"-1\r\n", "0\r\n", "1\r\n", "2\r\n", "3\r\n", "4\r\n", "5\r\n", "6\r\n", "7\r\n", "8\r\n", "9\r\n"};
  if ((uint64_t)n + 1 <= 10) {
    memcpy(at, shortest[n + 1], 4);
    return at + (n < 0 ? 4 : 3);
  }
  at = (uint64_t)n < 100000000 ? putDigits(at, (uint64_t)n) : throttlePutLong(at, n);
  memcpy(at, "\r\n", 2);
  return at + 2;
}

// The head of an array with less than 100 elements: the longest is that of EACH on several keys.
_Static_assert(MAX_FIELDS + MAX_KEYS * MAX_LIMITS < 100, "throttlePutArray writes two digits");
static inline char *throttlePutArray(char *at, int64_t length) {
  *at++ = '*';
  if (length >= 10) *at++ = (char)('0' + length / 10);
  *at++ = (char)('0' + length % 10);
  memcpy(at, "\r\n", 2);
  return at + 2;
}

static inline char *throttlePutIntegers(char *at, const int64_t *integers, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    *at++ = ':';
    at = throttlePutInteger(at, integers[i]);
  }
  return at;
}

#endif
