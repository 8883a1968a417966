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

/** Sends CL.LIMIT with its limits and options in words; returns the reply's fields. */
function limit(Redis $redis, string $key, string ...$words): array
{
    $redis->clearLastError();
    $reply = $redis->rawCommand('CL.LIMIT', $key, ...$words);
    if ($reply === false) {
        throw new RedisException($redis->getLastError());
    }
    $fields = [];
    foreach (array_chunk($reply, 2) as [$name, $value]) {
        $fields[$name] = $value;
    }
    return $fields;
}

/** Allows count requests per window (seconds) from each address, then ends them with 429. */
function rate_limit(string $url, int $count, int $window): void
{
    try {
        $reply = limit(connect($url), "http:{$_SERVER['REMOTE_ADDR']}", 'RATE', "$count/$window");
    } catch (RedisException $error) {
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
