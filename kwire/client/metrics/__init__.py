"""The metrics endpoints of brokers: where they are, and what they say.

kwire's brokers name theirs in DescribeConfigs (`kwire serve --metrics PORT`).
"""
