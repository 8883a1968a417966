"""What everything stands on: a call is a value, a decider decides it, and a result or an error comes of that."""
