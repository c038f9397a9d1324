"""One file a migration, none of which is changed once a version with it was released."""
