"""The declarations of broker settings and group configs: type, default, range, effect, sentence."""
