r"""The command line, \`bimetal\`: a file for each group of commands."""
