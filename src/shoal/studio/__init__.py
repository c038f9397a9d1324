"""A local web application for people who do not program: see ``docs/adr/0023-pages.md``.

It stands on what the extra ``studio`` brings; nothing else of the package imports it.
"""
