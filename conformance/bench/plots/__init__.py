"""The plot of RESULTS.md, from the figures of a run or from the tables that are kept there."""
