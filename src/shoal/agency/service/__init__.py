"""The agency's service over HTTP."""
