"""`kwire apply` and `kwire export`: what a cluster is declared to have, and what it has.

kwire.declared decides; here files are read (`files`), clusters asked (`found`) and changed
(`carrying`), by the commands or by a broker that starts (`at_start`).
"""
