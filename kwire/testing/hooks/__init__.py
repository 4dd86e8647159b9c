"""The broker's side of kwire.testing."""
