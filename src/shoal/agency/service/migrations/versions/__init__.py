"""One file a migration, none of which is ever changed."""
