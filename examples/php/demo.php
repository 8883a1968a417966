<?php
// Six requests to a web server that allows five an hour, then jobs under limits of other kinds.
declare(strict_types=1);

require __DIR__ . '/rate_limit.php';

/** Serves app.php with variables of the environment, while $use is called with its address. */
function serve(array $environment, callable $use): void
{
    $probe = stream_socket_server('tcp://127.0.0.1:0');
    $address = stream_socket_get_name($probe, false);
    fclose($probe);
    $server = proc_open([PHP_BINARY, '-q', '-S', $address, __DIR__ . '/app.php'],
        [1 => ['file', '/dev/null', 'w'], 2 => STDERR], $pipes,
        env_vars: $environment + getenv());
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

function demo(): void
{
    $url = getenv('REDIS_URL') ?: 'redis://127.0.0.1:6379';
    $redis = getenv('REDIS_CLUSTER') ? connect_to_cluster($url) : connect($url);
    foreach (['http:127.0.0.1', 'jobs', '{acme}', '{acme}:ann', '{acme}:bob', 'exports'] as $key) {
        $redis->del($key); // so that it prints the same each time
    }

    serve([], function (string $address): void {
        for ($n = 1; $n <= 6; $n++) {
            [$status, $fields] = get($address);
            echo "request $n: $status\n";
            foreach (preg_grep('/^(RateLimit|Retry-After)/', $fields) as $field) {
                echo "  $field\n";
            }
        }
    });
    serve(['REDIS_URL' => 'redis://127.0.0.1:1', 'REDIS_CLUSTER' => ''], function (string $address): void {
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

    foreach (['ann', 'ann', 'ann', 'bob', 'bob'] as $user) {
        $reply = limit_keys($redis, ["{acme}:$user" => ['RATE', '2/h'], '{acme}' => ['RATE', '3/h']]);
        echo "$user: ", $reply['limited'] ? "limited by {$reply['key']}" : 'allowed', "\n";
    }

    export($redis, 1, function () use ($redis): void {
        export($redis, 2, function () use ($redis): void {
            try {
                export($redis, 3, fn () => null);
            } catch (Limited) {
                echo "export 3: no slot is free\n";
            }
        });
    });
    export($redis, 4, fn (callable $renew) => $renew());
}

/** One of two at once. */
function export(Redis|RedisCluster $redis, int $n, callable $work): void
{
    with_slot($redis, 'exports', slots: 2, ttl: 30, work: function (callable $renew) use ($n, $work): void {
        echo "export $n: begun\n";
        $work($renew);
    });
}

if (($argv[1] ?? '') === 'serve') {
    // Until it is ended, with as many requests an hour as the next argument says.
    serve(['COUNT' => $argv[2] ?? '5'], function (string $address): void {
        echo "http://$address/\n";
        while (true) {
            sleep(60);
        }
    });
}
demo();
