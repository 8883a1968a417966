<?php
// Rate limiting with redis-throttle and phpredis: a guard for the top of a script, and
// a retry.
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

/** The integers of a reply, in their order. A newer server may add others after them. */
const FIELDS = [
    'limited', 'rule', 'limit', 'remaining', 'retry_after_ms', 'reset_after_ms', 'next_after_ms', 'granted', 'wait_ms',
];

/** Sends CL.LIMIT with its limits and options in words; returns the reply's fields. */
function limit(Redis|RedisCluster $redis, string $key, string ...$words): array
{
    $redis->clearLastError();
    // A RedisCluster takes the key first, to find the node.
    $node = $redis instanceof RedisCluster ? [$key] : [];
    $reply = $redis->rawCommand(...$node, ...['CL.LIMIT', $key, ...$words, 'COMPACT']);
    if ($reply === false) {
        throw new ErrorReply($redis->getLastError());
    }
    $integers = array_filter(array_slice((array) $reply, 0, count(FIELDS)), 'is_int');
    if (count($integers) < count(FIELDS)) {
        throw new UnexpectedValueException('CL.LIMIT replied ' . json_encode($reply));
    }
    return array_combine(FIELDS, $integers);
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
        $reply = limit($connect(), "http:{$_SERVER['REMOTE_ADDR']}", 'RATE', "$count/$window");
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
