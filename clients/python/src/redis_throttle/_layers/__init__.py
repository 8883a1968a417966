"""Deciders that stand before another one: a guard, remembered denials, batches of units, observers."""
