"""A local web application for people who do not program: see ``docs/adr/0023-pages.md``.

It needs the extra ``studio``; only the command imports it.
"""
