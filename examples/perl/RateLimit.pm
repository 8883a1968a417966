# Rate limiting with redis-throttle and Redis.pm: PSGI middleware, and a retry.
package RateLimit;
use v5.32;
use warnings;

use parent 'Plack::Middleware';
use Exporter 'import';
use Plack::Util;
use Plack::Util::Accessor qw(redis count window);
use POSIX qw(ceil);
use Time::HiRes qw(sleep);

our @EXPORT_OK = qw(limit retry);

# The integers of a reply, in their order. A newer server may add others after them.
my @fields = qw(limited rule limit remaining retry_after_ms reset_after_ms next_after_ms granted wait_ms);

# limit($redis, $key, @words) sends CL.LIMIT with its limits and options in words, and
# returns the reply's fields.
sub limit {
    my ($redis, $key, @words) = @_;
    my $command = 'CL.LIMIT';
    my $reply = $redis->$command($key, @words, 'COMPACT');
    my %reply;
    @reply{@fields} = @$reply;
    die "CL.LIMIT replied @$reply\n" if grep { !defined || !/^-?\d+$/ } values %reply;
    return \%reply;
}

# Plack calls this when the middleware is made: the place to refuse a cluster, unless there
# is no Redis yet.
sub prepare_app {
    my ($self) = @_;
    eval { $self->client; 1 } or is_outage($@) or die $@;
    delete $self->{client};
}

sub client {
    my ($self) = @_;
    return $self->{client} //= do {
        my $redis = $self->redis->();
        die "Redis.pm knows no clusters: it needs a single server\n" if $redis->info('cluster')->{cluster_enabled};
        $redis;
    };
}

# is_outage($error): whether Redis is out of reach or in a state in which it does not
# decide. Anything else, such as a bad limit, is a mistake, which must not let everybody
# through.
sub is_outage {
    my ($error) = @_;
    my ($reply) = $error =~ /^\[[^]]*\] (.*)/s;    # [COMMAND] and what the server said
    return $reply =~ /^(BUSY|CLUSTERDOWN|LOADING|MASTERDOWN|MISCONF|NOREPLICAS|OOM|READONLY|TRYAGAIN|ERR max number of clients) /
        if defined $reply;
    return $error =~ /^(Could not (connect|write) to|Error while reading from|Not connected to any|Redis server closed)/;
}

# Middleware: count requests per window (seconds) from each address, then 429. redis is
# a sub that connects, so that each worker process has a connection of its own.
sub call {
    my ($self, $env) = @_;
    my $reply = eval {
        limit($self->client, "http:$env->{REMOTE_ADDR}", 'RATE', $self->count . '/' . $self->window);
    };
    if (!$reply) {
        my $error = $@;
        delete $self->{client};
        die $error unless is_outage($error);       # the server answers 500
        warn "requests are not limited: $error";
        return $self->app->($env);
    }

    my @fields = (
        'RateLimit-Policy' => sprintf('"default";q=%d;w=%d', $self->count, $self->window),
        'RateLimit'        => sprintf('"default";r=%d;t=%d', $reply->{remaining}, ceil($reply->{next_after_ms} / 1000)),
    );
    if ($reply->{limited}) {
        push @fields, 'Retry-After' => ceil($reply->{retry_after_ms} / 1000), 'Content-Type' => 'text/plain';
        return [429, \@fields, ["Too many requests\n"]];
    }
    return Plack::Util::response_cb($self->app->($env), sub { push @{ $_[0][1] }, @fields });
}

# retry($call, %options) calls until the reply is not limited, and returns it. It pauses
# for as long as the reply says, plus a random time of up to base, twice base and so on,
# to cap (seconds): exponential backoff with full jitter.
sub retry {
    my ($call, %options) = @_;
    my ($attempts, $base, $cap) = @{ { attempts => 10, base => 0.1, cap => 10, %options } }{qw(attempts base cap)};
    for (my $attempt = 1; ; $attempt++) {
        my $reply = $call->();
        return $reply unless $reply->{limited};
        # -1: it never succeeds
        die "limited\n" if $reply->{retry_after_ms} < 0 || $attempt == $attempts;
        my $ceiling = $base * 2**($attempt - 1);
        sleep($reply->{retry_after_ms} / 1000 + rand($ceiling < $cap ? $ceiling : $cap));
    }
}

1;
