# Rate limiting with redis-throttle and Redis.pm: PSGI middleware, a retry, several keys, slots.
package RateLimit;
use v5.32;
use warnings;

use parent 'Plack::Middleware';
use Exporter 'import';
use Plack::Util;
use Plack::Util::Accessor qw(redis count window);
use POSIX qw(ceil);
use Time::HiRes qw(sleep);

our @EXPORT_OK = qw(limit limit_keys retry with_slot);

# The integers of replies, in their order. A newer server may add others after them.
my @fields = qw(limited rule limit remaining retry_after_ms reset_after_ms next_after_ms granted wait_ms);

# limit($redis, $key, @words) sends CL.LIMIT with its limits and options in words, and
# returns the reply's fields.
sub limit {
    my ($redis, $key, @words) = @_;
    return send_compact($redis, \@fields, 'CL.LIMIT', $key, @words);
}

# limit_keys($redis, [$key => \@limit, ...], @options) sends CL.MLIMIT with the limits in words
# of each key. All keys are charged or none. The reply's key is the one whose limit decided.
sub limit_keys {
    my ($redis, $limits, @options) = @_;
    my (@keys, @words);
    for (my $i = 0; $i < @$limits; $i += 2) {
        push @keys, $limits->[$i];
        push @words, 'NEXT', @{ $limits->[$i + 1] };
    }
    shift @words;
    my $reply = send_compact($redis, [@fields, 'shadow', 'key'], 'CL.MLIMIT', scalar @keys, @keys, @words, @options);
    return { %$reply, key => $keys[$reply->{key} - 1] };
}

sub send_compact {
    my ($redis, $names, $command, @words) = @_;
    my $reply = $redis->$command(@words, 'COMPACT');
    my %reply;
    @reply{@$names} = @$reply;
    die "$command replied @$reply\n" if grep { !defined || !/^-?\d+$/ } values %reply;
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
        limit($self->client, "http:$env->{REMOTE_ADDR}", 'RATE', $self->count . '/' . $self->window . 's');
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

my @lease_fields = qw(limited limit remaining retry_after_ms lease_ms wait_ms);

# with_slot($redis, $key, { slots => 2, ttl => 30 }, $work) holds one of the slots of key while
# $work runs, or dies with "limited". If the process dies, the slot is free after ttl (seconds).
# Work that may take longer calls what it is given, to renew, every now and then, and stops
# when that dies.
sub with_slot {
    my ($redis, $key, $options, $work) = @_;
    # Not of rand, which may repeat itself in processes that were forked.
    open my $random, '<:raw', '/dev/urandom' or die "/dev/urandom: $!\n";
    read($random, my $id, 16) == 16 or die "/dev/urandom: $!\n";
    my @lease = ($key, 'ID', unpack 'H*', $id);
    my @ttl = (TTL => "$options->{ttl}s");
    my $reply = send_compact($redis, \@lease_fields, 'CL.LEASE', @lease, SLOTS => $options->{slots}, @ttl);
    die "limited\n" if $reply->{limited};

    my $renew = sub {
        my $reply = send_compact($redis, \@lease_fields, 'CL.RENEW', @lease, @ttl);
        die "the lease is lost\n" if $reply->{limited};    # the slot may be somebody else's
    };
    my $done = eval { $work->($renew); 1 };
    my $failure = $@;
    my $command = 'CL.RELEASE';
    if (!eval { $redis->$command(@lease); 1 }) {
        die $@ unless is_outage($@);
        warn "a slot of $key stays taken for $options->{ttl} s: $@";
    }
    die $failure unless $done;
}

1;
