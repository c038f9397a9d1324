"""Where Alembic begins: what it was asked for runs in one transaction, on the connection that its configuration has."""

from alembic import context

from shoal.agency.service.migrations.versions.v0002_campaigns import metadata

if hasattr(context, "config"):  # not when somebody merely imports this file
    context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
    with context.begin_transaction():
        context.run_migrations()
