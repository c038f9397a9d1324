"""Where Alembic begins; the connection comes from ``shoal.agency.service.migrations``."""

from alembic import context

from shoal.agency.service.database import run_environment

if hasattr(context, "config"):  # not when somebody merely imports this file
    run_environment(context)
