"""The pages of the studio: every module here with ``routes``, and optionally a ``place``, is a page."""
