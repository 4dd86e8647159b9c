"""What the broker that controls the cluster decides: topics and settings.

A handler decodes, asks here, commits and answers.  What is asked here is a `Decision`
(kwire.cluster.metadata.changes) that goes by the image it is given, or raises a Refusal; `Outcome`
keeps which of both it was.  Nothing here waits, commits or knows a message.

    topic_creation      new topics: a client's, those of first use, those of the coordinators
    topic_growth        more partitions
    topic_deletion      topics that go
    config_changes      what is set on a resource: what may be, and by whom
    config_edits        single settings: set, deleted, appended to, subtracted from
    logger_levels       levels of the broker's loggers, which no image holds
    outcome, host       what these share
"""
