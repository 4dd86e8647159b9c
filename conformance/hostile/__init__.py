"""What no well-behaved client sends: frames and batches that a broker must survive, and answer.

To survive: `requests` makes valid requests of every API key and version that a broker says it
serves, `mutations` spoils them, `attack` sends them over many connections at once.

To answer as another broker does: `batch_cases` are record batches that lie, `frame_cases` spoiled
frames and odd deliveries; `runner` sends the same bytes to two brokers and compares what each
answers, whether it hangs up, and what is in the log afterwards; `allowed` says what may differ.
"""
