"""Settings: their schema, presets, validation, migrations and units."""
