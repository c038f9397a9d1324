"""A suite that tests any verifier of shoal's release format over its command line; see README.md."""
