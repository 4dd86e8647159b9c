"""Rolling churn: members of every group protocol join, leave, are killed and paused for long.

The broker is killed meanwhile, too.  Members are processes of their own, each of which writes its
part of the history; `round` has the whole of it judged once the groups have come to the end.
"""
