"""How a call reaches Redis or Valkey, over a client of redis-py or valkey-py."""
