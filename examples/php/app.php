<?php
// A page that allows five requests an hour: php -S 127.0.0.1:8080 app.php
declare(strict_types=1);

require __DIR__ . '/rate_limit.php';

rate_limit(getenv('REDIS_URL') ?: 'redis://127.0.0.1:6379', count: 5, window: 3600);
echo "hello\n";
