"""HTTP API of mainspring."""
