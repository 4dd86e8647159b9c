"""The declarations of all settings: name, type, default, range and documentation."""
