"""Share groups' records on this broker: the work around kwire.coordinators.share's machines.

Imported with the first request of a member.  Reading order is

    limits         the settings of a share group
    states, remote_states    the way to share coordinators, here and on other brokers
    stating        what the requests to them have in common
    telling        what the share coordinator is told of groups
    latest, offsets    from where groups read, as administrators see and alter it
    led            one partition that is led here, as one group reads it
    manager        all of them, and the sessions of their members
    rights         which topics a member may read
    acknowledging, fetching    the requests
"""
