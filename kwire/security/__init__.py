"""Security: authentication, TLS, access control lists, delegation tokens and quotas.

Start with `authorizer`, the rules of access control lists, and `operations`, the rights as bits.
"""
