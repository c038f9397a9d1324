"""The central agency as an HTTP service; see ``docs/agency-service.md`` and decision 16."""
