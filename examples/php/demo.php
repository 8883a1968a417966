<?php
// Six requests to a web server that allows five an hour, then two jobs under a limit.
declare(strict_types=1);

require __DIR__ . '/rate_limit.php';

/** Serves app.php, which uses the Redis at a URL, while $use is called with its address. */
function serve(string $redisUrl, callable $use): void
{
    $probe = stream_socket_server('tcp://127.0.0.1:0');
    $address = stream_socket_get_name($probe, false);
    fclose($probe);
    $server = proc_open([PHP_BINARY, '-S', $address, __DIR__ . '/app.php'],
        [1 => ['file', '/dev/null', 'w'], 2 => ['file', '/dev/null', 'w']], $pipes,
        env_vars: ['REDIS_URL' => $redisUrl] + getenv());
    try {
        while (!@stream_socket_client("tcp://$address")) {
            proc_get_status($server)['running'] || throw new RuntimeException('php -S does not start');
            usleep(10_000);
        }
        $use($address);
    } finally {
        proc_terminate($server);
        proc_close($server);
    }
}

/** The status and the header fields of the response to GET /. */
function get(string $address): array
{
    file_get_contents("http://$address/", context: stream_context_create(['http' => ['ignore_errors' => true]]));
    return [(int) explode(' ', $http_response_header[0])[1], array_slice($http_response_header, 1)];
}

$url = getenv('REDIS_URL') ?: 'redis://127.0.0.1:6379';
$redis = connect($url);
$redis->del('http:127.0.0.1', 'jobs'); // so that it prints the same each time

serve($url, function (string $address): void {
    for ($n = 1; $n <= 6; $n++) {
        [$status, $fields] = get($address);
        echo "request $n: $status\n";
        foreach (preg_grep('/^(RateLimit|Retry-After)/', $fields) as $field) {
            echo "  $field\n";
        }
    }
});
serve('redis://127.0.0.1:1', function (string $address): void {
    echo 'request without Redis: ', get($address)[0], "\n";
});

foreach ([1, 2] as $n) {
    $attempts = 0;
    retry(function () use ($redis, &$attempts): array {
        $attempts++;
        return limit($redis, 'jobs', 'RATE', '1/2s');
    });
    echo "job $n: done ", $attempts === 1 ? 'at once' : 'after a wait', "\n";
}
