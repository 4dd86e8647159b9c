"""Decisions about topics and settings, which handlers commit for clients.

A handler decodes a request, creates decisions here, commits them and answers.  A `Decision`
(kwire.cluster.metadata.changes) depends only on the image that it gets, and may raise Refusal.
`DecisionOutcome` keeps its result.  Nothing here waits, commits, or knows a message.

    topic_creation      new topics: by CreateTopics, on first use, and of coordinators
    topic_growth        more partitions
    topic_deletion      deletion of topics
    config_changes      changes of a resource's configs, and who may make them
    config_edits        changes of single configs: set, delete, append, subtract
    logger_levels       levels of the broker's loggers, which no image holds
    quota_changes, scram_changes, token_changes, feature_updates
    new_cluster         the first changes of a new cluster
    outcome             what these modules share
"""
