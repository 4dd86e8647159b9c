"""The test suites of public Kafka clients, run against a broker.

Each folder beside this file that holds a `run` is a suite, named after its client. Its sources are
obtained when it runs, at a pinned version with a pinned hash; none of them is kept here.

| file | what it is |
| --- | --- |
| `run` | obtains, builds and runs the suite |
| `allow.txt` | the tests that pass on kwire; one that no longer does is a defect. It only grows |
| `findings.md` | why each of the others does not pass, and whether it does on Apache Kafka |
| `README.md` | what it is, its version, how to run it, how many pass |
| `broker.properties` | broker settings that the suite needs, if any |
| `sasl-users.properties` | `name=MECHANISM,... password`: who logs in at more listeners, if any |
| `uses-registry.txt` | there if the suite needs a schema registry beside the broker |
| `apache-kafka.properties` | more of them for Apache Kafka alone, if any |

`run BOOTSTRAP RESULTS [TEST...]` is an executable that needs nothing of kwire. It

- keeps what it obtains and builds in `$XDG_CACHE_HOME/kwire/clients/NAME-VERSION` (without that
  variable: `~/.cache/...`), so that a second run needs no network;
- runs the suite, or only the tests that are named, against the broker that listens at BOOTSTRAP
  (HOST:PORT), or against a cluster whose brokers it names, separated by commas;
- writes to the file RESULTS a line a test, `pass`, `fail` or `skip`, a tab, the test's id, sorted
  by id; ids are the same in every run, without tabs and without `#` as their first character;
- writes what the failing tests said to the file RESULTS.log;
- exits with 0 if the suite ran, whatever failed in it, with 69 if its sources could not be
  obtained, with another status if it could not run.

Of the environment it may use `PYTHON`, a Python interpreter (default: python3), and, where the
broker has more listeners, `SASL_BOOTSTRAP`, the HOST:PORT of one with SASL_PLAINTEXT where the
suite's users log in, `TLS_BOOTSTRAP`, that of one with TLS, and `TLS_AUTHORITY`, the file with the
certificate that signed the broker's. `REGISTRY_URL` is the address of the schema registry, an empty
one of kwire, if the suite uses one.

`allow.txt` is one id a line, sorted by code point; lines that begin with `#` stand at its head.

`python -m kwire.conformance.clients [NAME...]` starts a fresh broker for each suite, runs it and
compares what passed with `allow.txt`.
"""
