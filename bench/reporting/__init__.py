"""Reports: all cases in one table, plots of what a number cannot show, and the comparison of two reports."""
