<?php
// Rate limiting with redis-throttle and phpredis: a guard for the top of a script, a retry,
// several keys, slots.
declare(strict_types=1);

/** Connects to a URL such as redis://127.0.0.1:6379. */
function connect(string $url): Redis
{
    ['host' => $host, 'port' => $port] = parse_url($url) + ['port' => 6379];
    $redis = new Redis();
    $redis->connect($host, $port, 1.0); // seconds: a limiter must not keep requests waiting
    $redis->setOption(Redis::OPT_READ_TIMEOUT, 1.0);
    return $redis;
}

/** Connects to the cluster that the server at a URL is a node of. */
function connect_to_cluster(string $url): RedisCluster
{
    ['host' => $host, 'port' => $port] = parse_url($url) + ['port' => 6379];
    try {
        return new RedisCluster(null, ["$host:$port"], 1.0, 1.0);
    } catch (RedisClusterException $error) {
        if (!connect($url)->info('cluster')['cluster_enabled']) {
            throw new LogicException("$url is no node of a cluster");
        }
        throw $error;
    }
}

/** The integers of replies, in their order. A newer server may add others after them. */
const FIELDS = [
    'limited', 'rule', 'limit', 'remaining', 'retry_after_ms', 'reset_after_ms', 'next_after_ms', 'granted', 'wait_ms',
];

/** Sends CL.LIMIT with its limits and options in words; returns the reply's fields. */
function limit(Redis|RedisCluster $redis, string $key, string ...$words): array
{
    return send_compact($redis, FIELDS, $key, 'CL.LIMIT', $key, ...$words);
}

/**
 * Sends CL.MLIMIT with the limits in words of each key: ['{acme}:user:42' => ['RATE', '5/s'], ...].
 * All keys are charged or none. In a cluster they need a hash tag in common, such as {acme}.
 * The reply's key is the one whose limit decided.
 */
function limit_keys(Redis|RedisCluster $redis, array $limits, string ...$options): array
{
    $keys = array_map('strval', array_keys($limits));
    $words = array_merge(...array_map(fn (array $limit): array => ['NEXT', ...$limit], array_values($limits)));
    $reply = send_compact($redis, [...FIELDS, 'shadow', 'key'], $keys[0],
        'CL.MLIMIT', (string) count($keys), ...$keys, ...array_slice($words, 1), ...$options);
    return ['key' => $keys[$reply['key'] - 1]] + $reply;
}

function send_compact(Redis|RedisCluster $redis, array $names, string $key, string ...$words): array
{
    $reply = send($redis, $key, ...[...$words, 'COMPACT']);
    $integers = array_filter(array_slice((array) $reply, 0, count($names)), 'is_int');
    if (count($integers) < count($names)) {
        throw new UnexpectedValueException("$words[0] replied " . json_encode($reply));
    }
    return array_combine($names, $integers);
}

/** Sends a command to where the key is. */
function send(Redis|RedisCluster $redis, string $key, string ...$words): mixed
{
    $redis->clearLastError();
    // A RedisCluster takes the key first, to find the node.
    $node = $redis instanceof RedisCluster ? [$key] : [];
    $reply = $redis->rawCommand(...$node, ...$words);
    if ($reply === false) {
        throw new ErrorReply($redis->getLastError());
    }
    return $reply;
}

/** What the server replied in place of a result. phpredis throws some such replies itself. */
class ErrorReply extends RuntimeException
{
}

/**
 * Whether Redis is out of reach or in a state in which it does not decide. Anything else,
 * such as a bad limit, is a mistake, which must not let everybody through.
 */
function is_outage(Throwable $error): bool
{
    $message = $error->getMessage();
    if ($error instanceof ErrorReply || preg_match('/^[A-Z]{2,} /', $message)) { // a code, and what it says
        return (bool) preg_match('/^(BUSY|CLUSTERDOWN|LOADING|MASTERDOWN|MISCONF|NOREPLICAS|OOM|READONLY|TRYAGAIN'
            . '|ERR max number of clients) /', $message);
    }
    return $error instanceof RedisException || $error instanceof RedisClusterException;
}

/**
 * Allows count requests per window (seconds) from each address, then ends them with 429.
 * The client is what $connect returns.
 */
function rate_limit(callable $connect, string|int $count, int $window): void
{
    try {
        $reply = limit($connect(), "http:{$_SERVER['REMOTE_ADDR']}", 'RATE', "$count/{$window}s");
    } catch (Throwable $error) {
        if (!is_outage($error)) {
            http_response_code(500); // PHP itself sets none where it displays errors
            throw $error;
        }
        error_log("requests are not limited: {$error->getMessage()}");
        return;
    }
    $seconds = fn (int $ms): int => intdiv($ms + 999, 1000);
    header("RateLimit-Policy: \"default\";q=$count;w=$window");
    header("RateLimit: \"default\";r={$reply['remaining']};t={$seconds($reply['next_after_ms'])}");
    if ($reply['limited']) {
        http_response_code(429);
        header("Retry-After: {$seconds($reply['retry_after_ms'])}");
        header('Content-Type: text/plain');
        exit("Too many requests\n");
    }
}

class Limited extends RuntimeException
{
}

/**
 * Calls until the reply is not limited, and returns it. Pauses for as long as the reply
 * says, plus a random time of up to base, twice base and so on, to cap (ms): exponential
 * backoff with full jitter.
 */
function retry(callable $call, int $attempts = 10, int $base = 100, int $cap = 10_000): array
{
    for ($attempt = 1; ; $attempt++) {
        $reply = $call();
        if (!$reply['limited']) {
            return $reply;
        }
        if ($reply['retry_after_ms'] < 0 || $attempt === $attempts) { // -1: it never succeeds
            throw new Limited();
        }
        $ceiling = min($cap, $base * 2 ** ($attempt - 1));
        usleep(1000 * $reply['retry_after_ms'] + random_int(0, 1000 * $ceiling));
    }
}

/** The lease has lapsed: the slot may be somebody else's. */
class LeaseLost extends RuntimeException
{
}

const LEASE_FIELDS = ['limited', 'limit', 'remaining', 'retry_after_ms', 'lease_ms', 'wait_ms'];

/**
 * Holds one of the slots of key while $work runs, or throws Limited. If the process dies, the
 * slot is free after ttl (seconds). Work that may take longer calls what it is given, to
 * renew, every now and then, and stops when that throws.
 */
function with_slot(Redis|RedisCluster $redis, string $key, int $slots, int $ttl, callable $work): mixed
{
    $lease = [$key, 'ID', bin2hex(random_bytes(16))];
    if (send_compact($redis, LEASE_FIELDS, $key, 'CL.LEASE', ...[...$lease, 'SLOTS', "$slots", 'TTL', "{$ttl}s"])['limited']) {
        throw new Limited();
    }
    try {
        return $work(function () use ($redis, $key, $lease, $ttl): void {
            if (send_compact($redis, LEASE_FIELDS, $key, 'CL.RENEW', ...[...$lease, 'TTL', "{$ttl}s"])['limited']) {
                throw new LeaseLost($key);
            }
        });
    } finally {
        try {
            send($redis, $key, 'CL.RELEASE', ...$lease);
        } catch (Throwable $error) {
            if (!is_outage($error)) {
                throw $error;
            }
            error_log("a slot of $key stays taken for $ttl s: {$error->getMessage()}");
        }
    }
}
