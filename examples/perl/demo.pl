# Six requests to a web server that allows five an hour, then jobs under limits of other kinds.
use v5.32;
use warnings;
use FindBin;
use lib $FindBin::Bin;

use HTTP::Server::PSGI;
use HTTP::Tiny;
use IO::Socket::INET;
use Redis;
use RateLimit qw(limit limit_keys retry with_slot);

$| = 1;
my $address = ($ENV{REDIS_URL} // 'redis://127.0.0.1:6379') =~ s{^redis://}{}r;

sub connect_to {
    my ($server) = @_;
    return sub { Redis->new(server => $server, cnx_timeout => 1, read_timeout => 1) };
}

sub hello { [200, ['Content-Type' => 'text/plain'], ["hello\n"]] }

# While $use is called with its URL, a process serves a PSGI application.
sub serve {
    my ($app, $use) = @_;
    my $socket = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 5) or die $!;
    my $pid = fork // die $!;
    if (!$pid) {
        HTTP::Server::PSGI->new(listen_sock => $socket)->run($app);
        exit;
    }
    eval { $use->('http://127.0.0.1:' . $socket->sockport . '/') };
    my $failure = $@;
    kill TERM => $pid;
    waitpid $pid, 0;
    die $failure if $failure;
}

sub demo {
    my %five_an_hour = (count => 5, window => 3600);
    my $limited = RateLimit->wrap(\&hello, redis => connect_to($address), %five_an_hour);

    my $redis = connect_to($address)->();
    $redis->del('http:127.0.0.1', 'jobs', '{acme}', '{acme}:ann', '{acme}:bob', 'exports');    # so that it prints the same each time

    serve($limited, sub {
        my ($url) = @_;
        for my $n (1 .. 6) {
            my $response = HTTP::Tiny->new->get($url);
            say "request $n: $response->{status}";
            for my $field ('RateLimit-Policy', 'RateLimit', 'Retry-After') {
                my $value = $response->{headers}{ lc $field };
                say "  $field: $value" if defined $value;
            }
        }
    });
    serve(RateLimit->wrap(\&hello, redis => connect_to('127.0.0.1:1'), %five_an_hour), sub {
        my ($url) = @_;
        say 'request without Redis: ', HTTP::Tiny->new->get($url)->{status};
    });

    for my $n (1, 2) {
        my $attempts = 0;
        retry(sub { $attempts++; limit($redis, 'jobs', 'RATE', '1/2s') });
        say "job $n: done ", $attempts == 1 ? 'at once' : 'after a wait';
    }

    for my $user (qw(ann ann ann bob bob)) {
        my $reply = limit_keys($redis, ["{acme}:$user" => [qw(RATE 2/h)], '{acme}' => [qw(RATE 3/h)]]);
        say "$user: ", $reply->{limited} ? "limited by $reply->{key}" : 'allowed';
    }

    # Two at once.
    my $export = sub {
        my ($n, $work) = @_;
        with_slot($redis, 'exports', { slots => 2, ttl => 30 }, sub { say "export $n: begun"; $work->(@_) });
    };
    $export->(1, sub {
        $export->(2, sub {
            eval { $export->(3, sub { }); 1 } or $@ eq "limited\n" or die $@;
            say 'export 3: no slot is free';
        });
    });
    $export->(4, sub { my ($renew) = @_; $renew->() });
}

if (($ARGV[0] // '') eq 'serve') {
    # Until it is ended, with as many requests an hour as the next argument says.
    my $limited = RateLimit->wrap(\&hello, redis => connect_to($address), count => $ARGV[1] // 5, window => 3600);
    serve($limited, sub { my ($url) = @_; say $url; sleep });
} else {
    demo();
}
