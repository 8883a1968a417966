// Texts of RESP that are sent as they are.
//
// The API writes a reply value by value, and each takes the server some 200 instructions: twice as much as a decision
// for a reply of ten integers and their names. Only the reply of a command that the module has called is written in one
// piece. So for each length there is such a reply, a string that nobody else sees, whose text is overwritten before
// each use. What comes of it is checked here, and on every server of the tests. A server of a later major version gets
// its replies value by value.
#include <stdio.h>

#include "send.h"

throttleCarrier throttleCarriers[SENT_UP_TO + 1];

// The digits of any number, and its sign.
char *throttlePutLong(char *at, int64_t n) {
  uint64_t rest = (uint64_t)n;
  if (n < 0) {
    *at++ = '-';
    rest = -rest;
  }
  char digits[20], *from = digits + sizeof digits;
  do *--from = (char)('0' + rest % 10);
  while (rest /= 10);
  size_t length = (size_t)(digits + sizeof digits - from);
  memcpy(at, from, length);
  return at + length;
}

// Makes a carrier of a string of the server's.
static void carry(RedisModuleCallReply *string) {
  size_t length, sent;
  if (!string || api.CallReplyType(string) != CALL_REPLY_STRING) return;
  const char *bytes = api.CallReplyStringPtr(string, &length), *text = api.CallReplyProto(string, &sent);
  char head[24];
  int before = snprintf(head, sizeof head, "$%zu\r\n", length);
  if (sent > SENT_UP_TO || sent != (size_t)before + length + 2 || bytes != text + before || memcmp(text, head, (size_t)before) != 0) return;
  throttleCarriers[sent] = (throttleCarrier){string, (char *)text};
  stats.carriers++;
}

static int isMaking;

// Answers a call of throttleMakeCarriers: with strings of all lengths. They are sent as 20 to 106 and 108 to 320 bytes.
int throttleReplyLengths(RedisModuleCtx *ctx) {
  enum { SHORTEST = SENT_FROM - 7, LONGEST = SENT_UP_TO - 8 }; // without what stands around them
  static const char blanks[LONGEST];
  if (!isMaking) return 0;
  api.ReplyWithArray(ctx, LONGEST - SHORTEST + 1);
  for (size_t length = SHORTEST; length <= LONGEST; length++) api.ReplyWithStringBuffer(ctx, blanks, length);
  return 1;
}

// Made once and kept over MODULE UNLOAD, like the library itself. The module calls a command of its own that has no
// keys, and that no MONITOR shows: one of the server's may be another's name.
void throttleMakeCarriers(RedisModuleCtx *ctx) {
  static int isTried;
  if (isTried || !throttleIsKnownServer || !api.ReplyWithMap || !api.ReplyWithCallReply || !api.CallReplyProto) return;
  isTried = isMaking = 1;
  RedisModuleCallReply *reply = api.Call(ctx, "CL.TOP", "");
  isMaking = 0;
  if (!reply) return;
  for (size_t i = 0; api.CallReplyType(reply) == CALL_REPLY_ARRAY && i < api.CallReplyLength(reply); i++) carry(api.CallReplyArrayElement(reply, i));
}
