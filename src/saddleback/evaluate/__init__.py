"""The value of a policy from a fixed set of data."""
