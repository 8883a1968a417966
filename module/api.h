// The functions of the server's module API that the bridge uses, declared from the
// API's documentation. Each is looked up by name when the module is loaded; one
// that this server does not have is NULL.
#ifndef THROTTLE_API_H
#define THROTTLE_API_H

#include <stddef.h>
#include <stdint.h>

typedef struct RedisModuleCtx RedisModuleCtx;
typedef struct RedisModuleKey RedisModuleKey;
typedef struct RedisModuleString RedisModuleString;
typedef struct RedisModuleBlockedClient RedisModuleBlockedClient;
typedef struct RedisModuleCommand RedisModuleCommand;
typedef struct RedisModuleInfoCtx RedisModuleInfoCtx;
typedef struct RedisModuleCallReply RedisModuleCallReply;
typedef struct RedisModuleServerInfoData RedisModuleServerInfoData;
typedef struct RedisModuleUser RedisModuleUser;
typedef uint64_t RedisModuleTimerID;
typedef int (*RedisModuleCmdFunc)(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

typedef void (*RedisModuleTimerProc)(RedisModuleCtx *ctx, void *data);
typedef void (*RedisModuleDisconnectFunc)(RedisModuleCtx *ctx, RedisModuleBlockedClient *caller);
typedef void (*RedisModuleInfoFunc)(RedisModuleInfoCtx *info, int forCrashReport);
typedef long long (*RedisModuleConfigGetNumericFunc)(const char *name, void *data);
typedef int (*RedisModuleConfigSetNumericFunc)(const char *name, long long value, void *data, RedisModuleString **error);
typedef RedisModuleString *(*RedisModuleConfigGetStringFunc)(const char *name, void *data);
typedef int (*RedisModuleConfigSetStringFunc)(const char *name, RedisModuleString *value, void *data, RedisModuleString **error);
typedef int (*RedisModuleConfigApplyFunc)(RedisModuleCtx *ctx, void *data, RedisModuleString **error);
// An event is passed by value: its number, and the version of its data.
typedef struct {
  uint64_t id;
  uint64_t dataVersion;
} RedisModuleEvent;
typedef void (*RedisModuleEventCallback)(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data);

enum { API_OK = 0, API_ERR = 1 };
enum { OPEN_READ = 1 << 0, OPEN_WRITE = 1 << 1 };
// Nothing is told or deleted when a key is opened: NOTOUCH, NONOTIFY, NOSTATS, NOEXPIRE and NOEFFECTS. A server before
// Redis 7.2 ignores all but the first.
enum { OPEN_QUIETLY = 31 << 16 };
enum { KEYTYPE_EMPTY = 0, KEYTYPE_STRING = 1, KEYTYPE_ZSET = 5 };
enum { ZADD_NX = 1 << 1, ZADD_ADDED = 1 << 2 };
enum { CALL_REPLY_STRING = 0, CALL_REPLY_ERROR = 1, CALL_REPLY_INTEGER = 2, CALL_REPLY_ARRAY = 3 };
enum { POSTPONED_LENGTH = -1 };
enum { CONFIG_IMMUTABLE = 1 << 0 };
enum {
  NOTIFY_GENERIC = 1 << 2,
  NOTIFY_STRING = 1 << 3,
  NOTIFY_LIST = 1 << 4,
  NOTIFY_SET = 1 << 5,
  NOTIFY_HASH = 1 << 6,
  NOTIFY_ZSET = 1 << 7,
  NOTIFY_EXPIRED = 1 << 8,
  NOTIFY_EVICTED = 1 << 9,
  NOTIFY_STREAM = 1 << 10,
  NOTIFY_MODULE = 1 << 13,
};
enum {
  CONTEXT_LUA = 1 << 0,
  CONTEXT_MULTI = 1 << 1,
  CONTEXT_MASTER = 1 << 2,
  CONTEXT_CLUSTER = 1 << 5,
  CONTEXT_AOF = 1 << 6,
  CONTEXT_OOM = 1 << 10,
  CONTEXT_REPLICATED = 1 << 12,
  CONTEXT_LOADING = 1 << 13,
  CONTEXT_DENY_BLOCKING = 1 << 21,
};
enum {
  EVENT_ROLE_CHANGED = 0,
  EVENT_PERSISTENCE = 1,
  EVENT_FLUSHDB = 2,
  EVENT_LOADING = 3,
  EVENT_REPLICA_CHANGE = 6,
  EVENT_CRON_LOOP = 8,
  EVENT_MODULE_CHANGE = 9,
  EVENT_SWAPDB = 11,
  EVENT_FORK_CHILD = 13,
  EVENT_ASYNC_LOAD = 14,
  EVENT_EVENTLOOP = 15,
  EVENT_CONFIG = 16,
};
enum { NOW_REPLICA = 1 }; // of EVENT_ROLE_CHANGED
enum { FLUSH_END = 1 };
enum { LOADING_ENDED = 3 }; // of EVENT_LOADING; those below it are beginnings
enum { ASYNC_LOAD_COMPLETED = 2 };
enum { BEFORE_SLEEP = 0 }; // of EVENT_EVENTLOOP
// The data of EVENT_FLUSHDB; db is -1 for all of them.
typedef struct {
  uint64_t version;
  int32_t sync, db;
} flushInfo;
// What GetClientInfoById shows.
typedef struct {
  uint64_t version, flags, id;
  char address[46];
  uint16_t port, db;
} clientInfo;
enum { CLIENT_BLOCKED = 1 << 2 }; // of its flags
// The data of EVENT_SWAPDB.
typedef struct {
  uint64_t version;
  int32_t db, otherDb;
} swapInfo;
enum {
  OPTION_NO_IMPLICIT_SIGNAL_MODIFIED = 1 << 1,
  OPTION_HANDLE_REPL_ASYNC_LOAD = 1 << 2,
  OPTION_HANDLE_ATOMIC_SLOT_MIGRATION = 1 << 5,
};

// REQUIRED functions exist in every supported server (Redis 6.2.2 on); without one
// of them the module refuses to load, which it says through the first. OPTIONAL ones came later.
// clang-format off
#define THROTTLE_API(REQUIRED, OPTIONAL)                                                              \
  REQUIRED(Log, void, (RedisModuleCtx *, const char *level, const char *format, ...))                 \
  REQUIRED(CreateCommand, int, (RedisModuleCtx *, const char *name, RedisModuleCmdFunc, const char *flags, int firstkey, int lastkey, int keystep)) \
  REQUIRED(SetModuleOptions, void, (RedisModuleCtx *, int options))                                   \
  REQUIRED(IsModuleNameBusy, int, (const char *name))                                                 \
  REQUIRED(WrongArity, int, (RedisModuleCtx *))                                                       \
  REQUIRED(StringPtrLen, const char *, (const RedisModuleString *, size_t *length))                   \
  REQUIRED(CreateString, RedisModuleString *, (RedisModuleCtx *, const char *, size_t length))        \
  REQUIRED(CreateStringPrintf, RedisModuleString *, (RedisModuleCtx *, const char *format, ...))      \
  REQUIRED(PoolAlloc, void *, (RedisModuleCtx *, size_t))                                             \
  REQUIRED(RetainString, void, (RedisModuleCtx *, RedisModuleString *))                               \
  REQUIRED(StringCompare, int, (RedisModuleString *, RedisModuleString *))                            \
  REQUIRED(FreeString, void, (RedisModuleCtx *, RedisModuleString *))                                 \
  REQUIRED(OpenKey, RedisModuleKey *, (RedisModuleCtx *, RedisModuleString *name, int mode))          \
  REQUIRED(CloseKey, void, (RedisModuleKey *))                                                        \
  REQUIRED(KeyType, int, (RedisModuleKey *))                                                          \
  REQUIRED(StringDMA, char *, (RedisModuleKey *, size_t *length, int mode))                           \
  REQUIRED(StringTruncate, int, (RedisModuleKey *, size_t length))                                    \
  REQUIRED(StringSet, int, (RedisModuleKey *, RedisModuleString *value))                              \
  REQUIRED(DeleteKey, int, (RedisModuleKey *))                                                        \
  REQUIRED(ValueLength, size_t, (RedisModuleKey *))                                                   \
  REQUIRED(ZsetAdd, int, (RedisModuleKey *, double score, RedisModuleString *member, int *flags))     \
  REQUIRED(ZsetRem, int, (RedisModuleKey *, RedisModuleString *member, int *removed))                 \
  REQUIRED(ZsetScore, int, (RedisModuleKey *, RedisModuleString *member, double *score))              \
  REQUIRED(ZsetFirstInScoreRange, int, (RedisModuleKey *, double min, double max, int minExcluded, int maxExcluded)) \
  REQUIRED(ZsetLastInScoreRange, int, (RedisModuleKey *, double min, double max, int minExcluded, int maxExcluded)) \
  REQUIRED(ZsetRangeEndReached, int, (RedisModuleKey *))                                              \
  REQUIRED(ZsetRangeCurrentElement, RedisModuleString *, (RedisModuleKey *, double *score))           \
  REQUIRED(ZsetRangeNext, int, (RedisModuleKey *))                                                    \
  REQUIRED(ZsetRangePrev, int, (RedisModuleKey *))                                                    \
  REQUIRED(ZsetRangeStop, void, (RedisModuleKey *))                                                   \
  REQUIRED(IsKeysPositionRequest, int, (RedisModuleCtx *))                                            \
  REQUIRED(KeyAtPos, void, (RedisModuleCtx *, int position))                                          \
  REQUIRED(StringToLongLong, int, (const RedisModuleString *, long long *))                           \
  REQUIRED(GetAbsExpire, int64_t, (RedisModuleKey *))                                                 \
  REQUIRED(SetAbsExpire, int, (RedisModuleKey *, int64_t expireAtMs))                                 \
  REQUIRED(Replicate, int, (RedisModuleCtx *, const char *command, const char *format, ...))          \
  REQUIRED(ReplicateVerbatim, int, (RedisModuleCtx *))                                                \
  REQUIRED(SignalModifiedKey, int, (RedisModuleCtx *, RedisModuleString *name))                       \
  REQUIRED(GetNotifyKeyspaceEvents, int, (void))                                                      \
  REQUIRED(NotifyKeyspaceEvent, int, (RedisModuleCtx *, int type, const char *event, RedisModuleString *name)) \
  REQUIRED(ReplyWithError, int, (RedisModuleCtx *, const char *))                                     \
  REQUIRED(ReplyWithArray, int, (RedisModuleCtx *, long length))                                      \
  REQUIRED(ReplyWithLongLong, int, (RedisModuleCtx *, long long))                                     \
  REQUIRED(Alloc, void *, (size_t))                                                                   \
  REQUIRED(ReplyWithString, int, (RedisModuleCtx *, RedisModuleString *))                             \
  REQUIRED(ReplySetArrayLength, void, (RedisModuleCtx *, long length))                                \
  REQUIRED(Call, RedisModuleCallReply *, (RedisModuleCtx *, const char *command, const char *format, ...)) \
  REQUIRED(CallReplyType, int, (RedisModuleCallReply *))                                              \
  REQUIRED(CallReplyInteger, long long, (RedisModuleCallReply *))                                     \
  REQUIRED(CallReplyLength, size_t, (RedisModuleCallReply *))                                         \
  REQUIRED(CallReplyArrayElement, RedisModuleCallReply *, (RedisModuleCallReply *, size_t index))     \
  REQUIRED(CallReplyStringPtr, const char *, (RedisModuleCallReply *, size_t *length))                \
  REQUIRED(FreeCallReply, void, (RedisModuleCallReply *))                                             \
  REQUIRED(SubscribeToKeyspaceEvents, int, (RedisModuleCtx *, int types, int (*)(RedisModuleCtx *, int type, const char *event, RedisModuleString *name))) \
  REQUIRED(Free, void, (void *))                                                                      \
  REQUIRED(CreateStringFromString, RedisModuleString *, (RedisModuleCtx *, const RedisModuleString *)) \
  REQUIRED(GetContextFlags, int, (RedisModuleCtx *))                                                  \
  REQUIRED(GetSelectedDb, int, (RedisModuleCtx *))                                                    \
  REQUIRED(GetClientId, unsigned long long, (RedisModuleCtx *))                                       \
  REQUIRED(GetClientInfoById, int, (void *info, uint64_t id))                                         \
  REQUIRED(SelectDb, int, (RedisModuleCtx *, int db))                                                 \
  REQUIRED(CreateTimer, RedisModuleTimerID, (RedisModuleCtx *, int64_t periodMs, RedisModuleTimerProc, void *data)) \
  REQUIRED(StopTimer, int, (RedisModuleCtx *, RedisModuleTimerID, void **data))                       \
  REQUIRED(BlockClient, RedisModuleBlockedClient *, \
      (RedisModuleCtx *, RedisModuleCmdFunc reply, RedisModuleCmdFunc timeout, void (*freeData)(RedisModuleCtx *, void *), long long timeoutMs)) \
  REQUIRED(UnblockClient, int, (RedisModuleBlockedClient *, void *data))                              \
  REQUIRED(SetDisconnectCallback, void, (RedisModuleBlockedClient *, RedisModuleDisconnectFunc))      \
  REQUIRED(GetBlockedClientPrivateData, void *, (RedisModuleCtx *))                                   \
  REQUIRED(GetBlockedClientHandle, RedisModuleBlockedClient *, (RedisModuleCtx *))                    \
  REQUIRED(RegisterInfoFunc, int, (RedisModuleCtx *, RedisModuleInfoFunc))                            \
  REQUIRED(InfoAddSection, int, (RedisModuleInfoCtx *, const char *name))                             \
  REQUIRED(InfoAddFieldCString, int, (RedisModuleInfoCtx *, const char *field, const char *value))    \
  REQUIRED(InfoAddFieldULongLong, int, (RedisModuleInfoCtx *, const char *field, unsigned long long value)) \
  REQUIRED(SubscribeToServerEvent, int, (RedisModuleCtx *, RedisModuleEvent, RedisModuleEventCallback)) \
  REQUIRED(GetServerInfo, RedisModuleServerInfoData *, (RedisModuleCtx *, const char *section))       \
  REQUIRED(FreeServerInfo, void, (RedisModuleCtx *, RedisModuleServerInfoData *))                     \
  REQUIRED(ServerInfoGetFieldUnsigned, unsigned long long, (RedisModuleServerInfoData *, const char *field, int *failed)) \
  REQUIRED(ServerInfoGetFieldC, const char *, (RedisModuleServerInfoData *, const char *field))       \
  OPTIONAL(GetCommand, RedisModuleCommand *, (RedisModuleCtx *, const char *name))                    \
  OPTIONAL(SetCommandInfo, int, (RedisModuleCommand *, const void *info))                             \
  OPTIONAL(AddACLCategory, int, (RedisModuleCtx *, const char *name))                                 \
  OPTIONAL(SetCommandACLCategories, int, (RedisModuleCommand *, const char *categories))              \
  OPTIONAL(RegisterNumericConfig, int, (RedisModuleCtx *, const char *name, long long standard, unsigned flags, long long min, long long max, \
      RedisModuleConfigGetNumericFunc, RedisModuleConfigSetNumericFunc, RedisModuleConfigApplyFunc, void *data)) \
  OPTIONAL(RegisterStringConfig, int, (RedisModuleCtx *, const char *name, const char *standard, unsigned flags, RedisModuleConfigGetStringFunc, \
      RedisModuleConfigSetStringFunc, RedisModuleConfigApplyFunc, void *data)) \
  OPTIONAL(LoadConfigs, int, (RedisModuleCtx *))                                                      \
  OPTIONAL(GetCurrentUserName, RedisModuleString *, (RedisModuleCtx *))                               \
  OPTIONAL(GetClientUserNameById, RedisModuleString *, (RedisModuleCtx *, uint64_t id))               \
  OPTIONAL(CallReplyPromiseSetUnblockHandler, void, (RedisModuleCallReply *, void *handler, void *data)) \
  OPTIONAL(GetModuleUserFromUserName, RedisModuleUser *, (RedisModuleString *))                       \
  OPTIONAL(ACLCheckCommandPermissions, int, (RedisModuleUser *, RedisModuleString **, int argc))      \
  OPTIONAL(FreeModuleUser, int, (RedisModuleUser *))                                                  \
  OPTIONAL(GetDetachedThreadSafeContext, RedisModuleCtx *, (RedisModuleCtx *))                        \
  OPTIONAL(FreeThreadSafeContext, void, (RedisModuleCtx *))                                           \
  OPTIONAL(RegisterCommandFilter, void *, (RedisModuleCtx *, void (*)(void *), int flags))             \
  OPTIONAL(CommandFilterArgGet, const RedisModuleString *, (void *, int))                              \
  OPTIONAL(CommandFilterGetClientId, unsigned long long, (void *))                                     \
  OPTIONAL(AvoidReplicaTraffic, int, (void))                                                          \
  REQUIRED(ReplyWithStringBuffer, int, (RedisModuleCtx *, const char *, size_t length))               \
  OPTIONAL(ReplyWithMap, int, (RedisModuleCtx *, long pairs))                                         \
  OPTIONAL(ReplyWithCallReply, int, (RedisModuleCtx *, RedisModuleCallReply *))                       \
  OPTIONAL(CallReplyProto, const char *, (RedisModuleCallReply *, size_t *length))                    \
  OPTIONAL(CachedMicroseconds, int64_t, (void))
// clang-format on

typedef struct {
#define THROTTLE_DECLARE(name, result, parameters) result(*name) parameters;
  THROTTLE_API(THROTTLE_DECLARE, THROTTLE_DECLARE)
#undef THROTTLE_DECLARE
} throttleApi;

extern throttleApi api;

// throttleLoadApi fills in api. It returns NULL, or a sentence that names a required
// function that the server lacks.
const char *throttleLoadApi(RedisModuleCtx *ctx);

// The format of a command that the module calls while no key of its own is open: other modules may run in its middle.
// What they write then, when a key expires or is not found, is replicated only if the outer call is, too (!). The
// command itself is sent neither to the file (A) nor to replicas (R). Redis 6.2 would begin a transaction for it all
// the same, and ends itself if writes are paused.
#define THROTTLE_FORMAT(format) (api.RegisterNumericConfig ? "!AR" format : format)

#endif
