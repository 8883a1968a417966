<?php
// A page that allows COUNT requests an hour, or five: php -S 127.0.0.1:8080 app.php
declare(strict_types=1);

require __DIR__ . '/rate_limit.php';

$url = getenv('REDIS_URL') ?: 'redis://127.0.0.1:6379';
$connect = getenv('REDIS_CLUSTER') ? 'connect_to_cluster' : 'connect';
$count = getenv('COUNT');
rate_limit(fn () => $connect($url), count: $count === false ? 5 : $count, window: 3600);
echo "hello\n";
