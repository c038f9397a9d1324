"""The central agency as an HTTP service; see ``docs/agency-service.md`` and decision 20.

``application`` puts it together and ``running`` serves it. ``guard`` lets callers in, ``visits`` makes every answered
write one transaction with its line of the audit log, ``routes`` holds what each path does.
"""
