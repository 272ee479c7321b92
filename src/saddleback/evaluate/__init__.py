"""The value of a policy from a log: sums, estimates, and how they are kept."""
