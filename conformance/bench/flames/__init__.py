"""`make flames`: where kwire's time goes in each row, as flame graphs and as tables."""
