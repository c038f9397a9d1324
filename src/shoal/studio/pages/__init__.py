"""The pages of the studio: a module with ``routes`` and perhaps a ``place`` is found by walking this package."""
