"""Share groups' records on this broker: the work around kwire.share's machines.

Imported with the first request of a member.  Reading order is

    limits         the settings of a share group
    telling        what the share coordinator is told of groups
    led            one partition that is led here, as one group reads it
    manager        all of them, and the sessions of their members
    rights         which topics a member may read
    acknowledging, fetching    the requests
"""
