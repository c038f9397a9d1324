"""A token made beside the service, by whoever may write to its database."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from shoal.agency.service import audit, tokens
from shoal.agency.service.messages import NewToken
from shoal.agency.service.migrating import ready_database, telling_unreachable
from shoal.agency.service.refusals import Refusal
from shoal.agency.service.settings import Settings
from shoal.core.errors import UsageError


def new_token(settings: Settings, name: str, role: str) -> dict[str, Any]:
    """Make a token, with its line in the audit log, and return it as the service would."""
    try:
        asked = NewToken.model_validate({"name": name, "role": role})
    except ValidationError:
        known = ", ".join(tokens.ROLES)
        raise UsageError(f"--role must be one of {known}, and --name a text of 1 to 200 characters") from None
    database = ready_database(settings.database, migrating=False)
    try:
        with telling_unreachable(database), database.writing() as connection:
            number, token = tokens.create(database, connection, asked.name, asked.role, settings.tokens)
            line = audit.Line(tokens.now(), number, asked.role, "create_token_by_command", f"/v1/tokens/{number}", 201)
            audit.append(database, connection, [line])
    except Refusal as refusal:
        raise UsageError(refusal.message) from None
    finally:
        database.engine.dispose()
    return {"id": number, "name": asked.name, "role": asked.role, "token": token}
