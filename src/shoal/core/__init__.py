"""What everything stands on: array types, errors, progress, randomness, the registry, shared kernels."""
