"""Commands for people who operate a cluster: what it does now (top), what is wrong (doctor)."""
