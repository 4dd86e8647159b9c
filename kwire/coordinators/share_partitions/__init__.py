"""The share partitions that this broker leads: runs kwire.coordinators.share's machines.

Imported with the first request of a share group's member.  Reading order:

    limits           the settings of a share group
    states           requests to share coordinators, with retries
    remote_states    the same requests to other brokers
    state_requests   handles a client's request to the share coordinator, partition by partition
    dead_letter_topics, dead_letter_batches, dead_letter_search, dead_letter_queue
                     what groups give up goes to their dead-letter topics, each record once
    led              one share partition that is led here
    manager          all share partitions that are led here, and their members' sessions
    acknowledging    handles acknowledgements in ShareAcknowledge and ShareFetch

The request handlers are kwire.requests.handlers.share_fetch and its neighbours.
"""
