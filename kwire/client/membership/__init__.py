"""Being a member of a group, by the classic protocol or by the consumer protocol (KIP-848).

`membership` says what the consumer asks of either; `subscription` is what members of the classic
protocol tell each other.
"""
