"""Each setting stated once: name, type, default, range, and what its documentation says.\n"""
