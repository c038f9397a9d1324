"""Tables larger than memory: regions that are planned one by one."""
