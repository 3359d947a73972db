"""Speed, as ratios within one run: `make bench`. Never a test: machines differ, and so do their neighbours."""
