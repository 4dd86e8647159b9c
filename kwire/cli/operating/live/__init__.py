"""What `kwire top` shows: taken from the cluster (taking.py), computed from two samples without I/O
(view.py and rows.py), and drawn on a terminal (screen.py) or as tables (plain.py)."""
