"""Hostile requests: malformed frames and batches that a broker must survive and answer.

Survival: `requests` makes valid requests of every API key and version that a broker reports,
`mutations` damages them, and `attack` sends them over many connections at once.

Comparison with another broker: `batch_cases` has batches whose headers contradict their records,
and `frame_cases` has damaged frames and unusual deliveries.  `runner` sends the same bytes to two
brokers and compares their responses, whether they close the connection, and the content of the log
afterwards.  `allowed` lists the accepted differences.
"""
