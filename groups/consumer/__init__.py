"""Groups of the consumer protocol (KIP-848): the coordinator deals out the partitions.

Reading order is

    records                  what `__consumer_offsets` says of such a group
    assignors/               who is to have which partitions
"""
