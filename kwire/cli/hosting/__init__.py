"""What `kwire serve` needs around a broker.

This is processes that are forked from one which has everything imported, several brokers on this
machine, the settings of a container, and checks of what a broker advertises.
"""

from __future__ import annotations
