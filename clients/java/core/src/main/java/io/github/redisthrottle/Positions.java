package io.github.redisthrottle;

// Code generated from spec/replies.json by go generate ./spec; DO NOT EDIT.

/** The positions of fields in replies with COMPACT. */
final class Positions {
  static final int THROTTLE_LIMITED = 0;
  static final int THROTTLE_LIMIT = 1;
  static final int THROTTLE_REMAINING = 2;
  static final int THROTTLE_RETRY_AFTER = 3;
  static final int THROTTLE_RESET_AFTER = 4;
  static final int THROTTLE_FIELDS = 5;

  static final int LIMIT_LIMITED = 0;
  static final int LIMIT_RULE = 1;
  static final int LIMIT_LIMIT = 2;
  static final int LIMIT_REMAINING = 3;
  static final int LIMIT_RETRY_AFTER_MS = 4;
  static final int LIMIT_RESET_AFTER_MS = 5;
  static final int LIMIT_NEXT_AFTER_MS = 6;
  static final int LIMIT_GRANTED = 7;
  static final int LIMIT_WAIT_MS = 8;
  static final int LIMIT_SHADOW = 9;
  static final int LIMIT_FIELDS = 10;

  static final int MLIMIT_LIMITED = 0;
  static final int MLIMIT_RULE = 1;
  static final int MLIMIT_LIMIT = 2;
  static final int MLIMIT_REMAINING = 3;
  static final int MLIMIT_RETRY_AFTER_MS = 4;
  static final int MLIMIT_RESET_AFTER_MS = 5;
  static final int MLIMIT_NEXT_AFTER_MS = 6;
  static final int MLIMIT_GRANTED = 7;
  static final int MLIMIT_WAIT_MS = 8;
  static final int MLIMIT_SHADOW = 9;
  static final int MLIMIT_KEY = 10;
  static final int MLIMIT_FIELDS = 11;

  static final int SETTLE_SETTLED = 0;
  static final int SETTLE_RULE = 1;
  static final int SETTLE_LIMIT = 2;
  static final int SETTLE_REMAINING = 3;
  static final int SETTLE_RETRY_AFTER_MS = 4;
  static final int SETTLE_RESET_AFTER_MS = 5;
  static final int SETTLE_NEXT_AFTER_MS = 6;
  static final int SETTLE_GRANTED = 7;
  static final int SETTLE_WAIT_MS = 8;
  static final int SETTLE_SHADOW = 9;
  static final int SETTLE_KEY = 10;
  static final int SETTLE_FIELDS = 11;

  static final int LEASE_LIMITED = 0;
  static final int LEASE_LIMIT = 1;
  static final int LEASE_REMAINING = 2;
  static final int LEASE_RETRY_AFTER_MS = 3;
  static final int LEASE_LEASE_MS = 4;
  static final int LEASE_WAIT_MS = 5;
  static final int LEASE_FIELDS = 6;

  static final int EACH_LIMITED = 0;
  static final int EACH_LIMIT = 1;
  static final int EACH_REMAINING = 2;
  static final int EACH_RETRY_AFTER_MS = 3;
  static final int EACH_RESET_AFTER_MS = 4;
  static final int EACH_FIELDS = 5;

  private Positions() {}
}
