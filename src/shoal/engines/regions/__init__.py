"""Tables larger than memory: boxes of quasi values that are counted, planned and rewritten one after another."""
