"""Code that all other packages use: array types, errors, progress, randomness, the registry, kernels."""
